//! Taps: instances of which the model knows nothing, and that are shown what passes out ports of others. Whatever a tap does, the others go
//! on: a tap whose connection breaks counts as dead, and does not come back.

use std::sync::Arc;

use super::Server;
use crate::control::ToInstance;
use crate::coordinator::Event;
use crate::spec::{ConduitSpec, InstanceSpec};

impl Server {
    /// Makes a tap known; it may join from now on.
    pub(super) fn add_tap(&mut self, mut spec: InstanceSpec) {
        for conduit in &mut spec.conduits {
            Arc::make_mut(conduit).id = self.next_opened;
            self.next_opened += 1;
        }
        self.taps.insert(spec.name.clone());
        self.define(spec);
    }

    /// If an instance that joins is a tap: its writers show it what passes from now on, those that join later from then on.
    pub(super) fn open_tap(&mut self, name: &str) {
        for conduit in self.conduits_of_tap(name) {
            let Some(writer) = self.specs.get_mut(&conduit.sender) else { continue };
            if writer.conduits.iter().any(|each| each.id == conduit.id) {
                continue; // it asks once more to join, since its connection broke before it was welcomed
            }
            writer.conduits.push(conduit.clone());
            let conduit = ConduitSpec::clone(&conduit);
            self.shared.event(Event::Opened { instance: name.to_owned(), conduit: Box::new(conduit.clone()) });
            self.send_to(&conduit.sender.clone(), &ToInstance::Tap { conduit });
        }
    }

    fn conduits_of_tap(&self, name: &str) -> Vec<Arc<ConduitSpec>> {
        let spec = self.specs.get(name).filter(|_| self.taps.contains(name));
        spec.map(|spec| spec.conduits.clone()).unwrap_or_default()
    }
}
