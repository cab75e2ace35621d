use crate::clock::Micros;

/// A volume of the Instance API: `l_ssd` or `scratch`.
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    pub(crate) id: String,
    pub(crate) zone: String,
    pub(crate) name: String,
    pub(crate) volume_type: String,
    pub(crate) size: u64,
    pub(crate) organization: String,
    pub(crate) project: String,
    pub(crate) server: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) created: Micros,
    pub(crate) modified: Micros,
}
