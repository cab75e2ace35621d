use crate::types::tolerant::answers;

answers! {
    /// Another object by id and name.
    pub struct Reference {
        /// UUID.
        pub id: String,
        pub name: String,
    }
}
