use super::World;
use crate::clock::Micros;

#[derive(Debug, Clone)]
pub(crate) struct SecurityGroup {
    pub(crate) id: String,
    pub(crate) zone: String,
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) organization: String,
    pub(crate) project: String,
    pub(crate) stateful: bool,
    pub(crate) inbound_default_policy: String,
    pub(crate) outbound_default_policy: String,
    pub(crate) project_default: bool,
    pub(crate) enable_default_security: bool,
    pub(crate) tags: Vec<String>,
    pub(crate) created: Micros,
    pub(crate) modified: Micros,
    pub(crate) rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) id: String,
    pub(crate) protocol: String,
    pub(crate) direction: String,
    pub(crate) action: String,
    pub(crate) ip_range: String,
    pub(crate) dest_port_from: Option<u64>,
    pub(crate) dest_port_to: Option<u64>,
    pub(crate) position: u64,
    pub(crate) editable: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct PlacementGroup {
    pub(crate) id: String,
    pub(crate) zone: String,
    pub(crate) name: String,
    pub(crate) organization: String,
    pub(crate) project: String,
    pub(crate) policy_mode: String,
    pub(crate) policy_type: String,
    pub(crate) tags: Vec<String>,
    pub(crate) created: Micros,
    pub(crate) updated: Micros,
}

impl World {
    /// The group of servers that name none; made when it is first needed, as its recorded description says.
    pub(crate) fn default_security_group(&mut self, zone: &str, project: &str) -> String {
        let found = self
            .security_groups
            .values()
            .find(|group| group.zone == zone && group.project == project && group.project_default);
        if let Some(group) = found {
            return group.id.clone();
        }
        let id = self.random.id();
        let stamp = self.stamp();
        let group = SecurityGroup {
            id: id.clone(),
            zone: zone.to_owned(),
            name: "Default security group".to_owned(),
            description: Some("Auto generated security group.".to_owned()),
            organization: self.organization_of(project),
            project: project.to_owned(),
            stateful: true,
            inbound_default_policy: "accept".to_owned(),
            outbound_default_policy: "accept".to_owned(),
            project_default: true,
            enable_default_security: true,
            tags: Vec::new(),
            created: stamp,
            modified: stamp,
            rules: Vec::new(),
        };
        self.security_groups.insert(id.clone(), group);
        id
    }
}
