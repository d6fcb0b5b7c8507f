//! Model time as an instance sees it: where the run began, where the iteration is, and the time stamps that follow from it.

use crate::spec::{InstanceSpec, Kind, Operator};

/// See the module. All times are seconds.
#[derive(Clone, Debug)]
pub struct Clock {
    delta: f64,
    steps: u64,
    until: bool,
    mapper: bool,
    origin: f64,
    time: f64,
    /// Largest time stamp received in this run, and the next one of that message (mappers pass it on).
    latest: Option<(f64, Option<f64>)>,
}

impl Clock {
    /// Before the first run.
    pub fn new(spec: &InstanceSpec) -> Clock {
        Clock {
            delta: spec.delta_s,
            steps: spec.steps,
            until: spec.until,
            mapper: spec.kind != Kind::Submodel,
            origin: 0.0,
            time: 0.0,
            latest: None,
        }
    }

    /// A run begins; `initial` is the largest time stamp among its f_init messages.
    pub fn begin_run(&mut self, initial: Option<f64>) {
        if let Some(initial) = initial {
            self.origin = initial;
        }
        self.time = self.origin;
        self.latest = None;
    }

    /// An iteration begins; they count from 0.
    pub fn begin_iteration(&mut self, iteration: u64) {
        self.time = self.at(iteration);
    }

    /// The loop is over after so many iterations.
    pub fn end_loop(&mut self, iterations: u64) {
        self.time = self.at(iterations);
    }

    /// A message was received.
    pub fn received(&mut self, timestamp: f64, next: Option<f64>) {
        if self.latest.is_none_or(|(latest, _)| timestamp > latest) {
            self.latest = Some((timestamp, next));
        }
    }

    /// Model time at which the run began.
    pub fn origin(&self) -> f64 {
        self.origin
    }

    /// Model time of the current iteration.
    pub fn time(&self) -> f64 {
        self.time
    }

    /// The time stamp and the next one of a message sent now on a port of `operator`, when the program does not give them.
    /// `iterations` were begun so far in this run.
    pub fn stamps(&self, operator: Option<Operator>, iterations: u64, is_last: bool) -> (f64, Option<f64>) {
        if self.mapper || operator.is_none() {
            return self.latest.unwrap_or((self.time, None));
        }
        if operator == Some(Operator::Of) {
            // A program without a loop of its own still spans the steps of the model.
            let passed = if iterations == 0 && !self.until { self.steps } else { iterations };
            return (self.at(passed), None);
        }
        let iteration = iterations.saturating_sub(1);
        (self.at(iteration), (!is_last).then(|| self.at(iteration + 1)))
    }

    /// How far a message received on an S or B port is from the current iteration, if that is more than half a time step.
    ///
    /// A message with a next time stamp holds for the interval up to it, and must come close to the beginning of the step. One without
    /// (the result of a run, sent in O_f) may belong to any time within the step.
    pub fn drift(&self, timestamp: f64, next: Option<f64>) -> Option<f64> {
        if self.delta <= 0.0 || !timestamp.is_finite() {
            return None;
        }
        let end = next.filter(|next| next.is_finite() && *next >= timestamp).unwrap_or(timestamp);
        let latest = if next.is_some() { self.time } else { self.time + self.delta };
        let drift = if latest < timestamp { timestamp - latest } else { (self.time - end).max(0.0) };
        // A little more than half, since the times are rounded.
        (drift > self.delta * (0.5 + 1e-9)).then_some(drift)
    }

    fn at(&self, iteration: u64) -> f64 {
        self.origin + iteration as f64 * self.delta
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Clock {
        Clock { delta: 2.0, steps: 3, until: false, mapper: false, origin: 10.0, time: 10.0, latest: None }
    }

    #[test]
    fn stamps_in_the_loop_are_the_iteration_and_the_next_one() {
        assert_eq!(clock().stamps(Some(Operator::Oi), 1, false), (10.0, Some(12.0)));
        assert_eq!(clock().stamps(Some(Operator::Oi), 3, true), (14.0, None));
    }

    #[test]
    fn the_final_observation_is_after_all_steps() {
        assert_eq!(clock().stamps(Some(Operator::Of), 3, true), (16.0, None));
        assert_eq!(clock().stamps(Some(Operator::Of), 0, false), (16.0, None));
        assert_eq!(Clock { until: true, ..clock() }.stamps(Some(Operator::Of), 1, false), (12.0, None));
    }

    #[test]
    fn a_mapper_passes_on_the_latest_stamps_it_received() {
        let mut clock = Clock { mapper: true, ..clock() };
        clock.received(5.0, Some(6.0));
        clock.received(3.0, Some(9.0));
        assert_eq!(clock.stamps(None, 0, false), (5.0, Some(6.0)));
    }

    #[test]
    fn drift_is_more_than_half_a_step_outside_the_interval_of_the_message() {
        let clock = clock();
        assert_eq!(clock.drift(10.9, None), None);
        assert_eq!(clock.drift(12.0, Some(14.0)), Some(2.0));
        assert_eq!(clock.drift(12.0, None), None);
        assert_eq!(clock.drift(14.0, None), Some(2.0));
        assert_eq!(clock.drift(6.0, Some(10.0)), None);
        assert_eq!(clock.drift(6.0, Some(8.0)), Some(2.0));
    }
}
