use crate::clock::Micros;

/// A volume of Block Storage.
#[derive(Debug, Clone)]
pub(crate) struct BlockVolume {
    pub(crate) id: String,
    pub(crate) zone: String,
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) iops: u64,
    pub(crate) project: String,
    pub(crate) created: Micros,
    pub(crate) updated: Micros,
    pub(crate) references: Vec<Reference>,
    pub(crate) parent_snapshot: Option<String>,
    pub(crate) status: BlockStatus,
    pub(crate) tags: Vec<String>,
    pub(crate) last_detached: Option<Micros>,
}

/// What a volume is when nothing holds it; with a reference it is `in_use`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockStatus {
    Creating,
    Available,
}

impl BlockVolume {
    pub(crate) fn status(&self) -> &'static str {
        match self.status {
            BlockStatus::Creating => "creating",
            BlockStatus::Available if self.references.is_empty() => "available",
            BlockStatus::Available => "in_use",
        }
    }
}

/// The tie between a volume and the server that uses it.
#[derive(Debug, Clone)]
pub(crate) struct Reference {
    pub(crate) id: String,
    pub(crate) server: String,
    pub(crate) created: Micros,
    pub(crate) status: ReferenceStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReferenceStatus {
    Attached,
    Detaching,
}

impl ReferenceStatus {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ReferenceStatus::Attached => "attached",
            ReferenceStatus::Detaching => "detaching",
        }
    }
}

/// A snapshot of a Block Storage volume.
#[derive(Debug, Clone)]
pub(crate) struct BlockSnapshot {
    pub(crate) id: String,
    pub(crate) zone: String,
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) project: String,
    pub(crate) parent_volume: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) created: Micros,
    pub(crate) ready: bool,
}
