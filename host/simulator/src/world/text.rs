//! How lists show servers, kept from list to list: one that has thousands is read every few seconds.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Server, World};

/// The JSON of servers as of now, by id.
#[derive(Debug, Default)]
pub(super) struct ServerTexts(RefCell<BTreeMap<String, Arc<str>>>);

impl ServerTexts {
    pub(super) fn forget(&mut self, server: &str) {
        self.0.get_mut().remove(server);
    }

    /// Forgets the server that something belongs to. One that it no longer belongs to has changed itself.
    pub(super) fn forget_of(&mut self, server: Option<&String>) {
        server.into_iter().for_each(|server| self.forget(server));
    }

    pub(super) fn forget_all(&mut self) {
        self.0.get_mut().clear();
    }
}

impl World {
    /// [`World::show_server`] as JSON. The request that asks for it has changed nothing.
    pub(crate) fn server_text(&self, server: &Server) -> Arc<str> {
        if let Some(text) = self.server_texts.0.borrow().get(&server.id) {
            return Arc::clone(text);
        }
        let text: Arc<str> = self.show_server(server).to_string().into();
        self.server_texts.0.borrow_mut().insert(server.id.clone(), Arc::clone(&text));
        text
    }
}
