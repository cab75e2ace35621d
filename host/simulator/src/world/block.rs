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
    /// What it is being made; until that is done it shows what it was.
    pub(crate) updating: Option<BlockUpdate>,
    pub(crate) tags: Vec<String>,
    pub(crate) last_detached: Option<Micros>,
}

/// The size and the speed that a volume is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockUpdate {
    pub(crate) size: u64,
    pub(crate) iops: u64,
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
            // Recorded on a volume in use.
            BlockStatus::Available if self.updating.is_some() => "updating",
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum ReferenceStatus {
    Attached,
    Detaching,
}

impl ReferenceStatus {
    pub(crate) fn as_str(self) -> &'static str {
        self.into()
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
