//! The configuration of a relay that is at work: where it is read from again, and what of it cannot change.

use crate::config::{Config, LinkConfig};

use super::links::LinkTarget;

/// Reads a configuration again, with all that was said on top of its file; returns what is wrong with it otherwise.
pub type ReadAgain = Box<dyn Fn() -> Result<Config, String> + Send>;

/// What a relay cannot change while it is at work, as its configuration says it.
#[derive(Default)]
struct FixedSettings {
    listen: Vec<String>,
    metrics: Option<String>,
    control: String,
}

impl FixedSettings {
    fn of(config: &Config) -> FixedSettings {
        FixedSettings { listen: config.listen.clone(), metrics: config.metrics.clone(), control: config.control() }
    }

    /// Returns the key of the first difference.
    fn difference(&self, other: &FixedSettings) -> Option<&'static str> {
        let keys = [
            ("listen", self.listen == other.listen),
            ("metrics", self.metrics == other.metrics),
            ("control", self.control == other.control),
        ];
        keys.into_iter().find(|(_, is_equal)| !is_equal).map(|(key, _)| key)
    }
}

/// How a relay reads its configuration again.
#[derive(Default)]
pub struct Reload {
    read_again: Option<ReadAgain>,
    fixed: FixedSettings,
}

impl Reload {
    /// Returns what a relay that was set up by this configuration needs to read it again.
    pub fn new(config: &Config, read_again: Option<ReadAgain>) -> Reload {
        Reload { read_again, fixed: FixedSettings::of(config) }
    }

    /// Reads the configuration again; `None`: the relay was started by options only.
    ///
    /// # Errors
    /// It cannot be read, or a relay of this site that is at work cannot take it over; returns why.
    pub fn read(&self, site: &str) -> Result<Option<Config>, String> {
        let Some(read_again) = &self.read_again else { return Ok(None) };
        let config = read_again()?;
        if config.site != site {
            return Err(format!("it is the relay of {site}, and cannot become that of {}", config.site));
        }
        if let Some(key) = self.fixed.difference(&FixedSettings::of(&config)) {
            return Err(format!("{key} cannot change while the relay is at work: stop it and start it again"));
        }
        Ok(Some(config))
    }
}

/// Returns the relays that a configuration has this one dial.
pub fn targets(config: &Config) -> Vec<LinkTarget> {
    let target = |link: &LinkConfig| LinkTarget {
        to: link.to.clone(),
        streams: link.streams,
        encrypt: link.encrypt,
        figures: link.figures(),
    };
    config.links.iter().map(target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config { site: "a".to_owned(), listen: vec!["127.0.0.1:1".to_owned()], ..Config::default() }
    }

    /// What becomes of a configuration that is read when a relay of `config()` is at work.
    fn reload(again: Config) -> Result<Option<Config>, String> {
        Reload::new(&config(), Some(Box::new(move || Ok(again.clone())))).read("a")
    }

    #[test]
    fn a_configuration_that_changes_nothing_fixed_is_read_again() {
        let again = Config { stream_memory_b: 7, ..config() };
        assert_eq!(reload(again.clone()), Ok(Some(again)));
    }

    #[test]
    fn the_first_fixed_setting_that_has_changed_is_named() {
        for (key, again) in [
            ("listen", Config { listen: Vec::new(), metrics: Some("127.0.0.1:2".to_owned()), ..config() }),
            ("metrics", Config { metrics: Some("127.0.0.1:2".to_owned()), ..config() }),
            ("control", Config { control: Some("@x".to_owned()), ..config() }),
        ] {
            assert_eq!(
                reload(again),
                Err(format!("{key} cannot change while the relay is at work: stop it and start it again"))
            );
        }
    }

    #[test]
    fn a_relay_does_not_become_that_of_another_site() {
        let again = Config { site: "b".to_owned(), ..config() };
        assert_eq!(reload(again), Err("it is the relay of a, and cannot become that of b".to_owned()));
    }

    #[test]
    fn a_relay_that_was_started_by_options_has_nothing_to_read() {
        assert_eq!(Reload::new(&config(), None).read("a"), Ok(None));
    }
}
