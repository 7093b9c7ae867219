//! What one handler may have of a node.

/// What a queue may hold: so many events, and so many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) count: usize,
    pub(crate) bytes: usize,
}

impl Bound {
    /// Whether one more fits. Bytes may be exceeded by the last one, so that one that is larger than
    /// all of them fits an empty queue, and none is claimed in vain.
    pub(crate) fn takes(self, count: usize, bytes: usize) -> bool {
        count < self.count && bytes < self.bytes
    }

    fn over(self, parts: usize) -> Self {
        Self { count: (self.count / parts).max(1), bytes: (self.bytes / parts).max(1) }
    }

    fn max(self, other: Self) -> Self {
        Self { count: self.count.max(other.count), bytes: self.bytes.max(other.bytes) }
    }
}

/// Workers, and room in each lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) workers: usize,
    pub(crate) hot: Bound,
    pub(crate) cold: Bound,
}

/// What a handler wants to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Demand {
    /// How many runs of it may go on at once, where it says so itself.
    pub(crate) runs: Option<usize>,
    /// How many events it takes in one run.
    pub(crate) batch: usize,
}

impl Demand {
    /// Of whoever says nothing.
    pub(super) const ANY: Self = Self { runs: None, batch: 1 };

    /// How many runs may go on at once, of so many workers that so many handlers share: as many as it says
    /// itself; else all of them where it is alone, and half of them where it is not; always one.
    pub(crate) fn most_runs(self, workers: usize, handlers: usize) -> usize {
        let share = if handlers <= 1 { workers } else { workers / 2 };
        self.runs.unwrap_or(share).clamp(1, workers.max(1))
    }
}

/// What one handler may have of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    /// Runs at once.
    pub(super) runs: usize,
    pub(super) hot: Part,
    pub(super) cold: Part,
}

/// One handler's part of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// What nobody else can take.
    pub(super) own: Bound,
    /// What it has at most, while others leave it to it.
    pub(super) most: Bound,
}

impl Capacity {
    /// The share of each of so many handlers, and of what nobody handles.
    ///
    /// A handler that is alone has everything. One of several has half at most, at least one worker; and
    /// half of each lane is divided among them, at least one place for each, which no other can take:
    /// whatever others do, it goes on.
    pub(super) fn share(self, handlers: usize) -> Share {
        let part = |lane: Bound| {
            if handlers <= 1 {
                return Part { own: Bound { count: 0, bytes: 0 }, most: lane };
            }
            let own = lane.over(2 * (handlers + 1));
            Part { own, most: lane.over(2).max(own) }
        };
        let runs = Demand::ANY.most_runs(self.workers, handlers);
        Share { runs, hot: part(self.hot), cold: part(self.cold) }
    }
}

impl Share {
    /// With as many runs as a handler may have, of so many workers and beside so many others.
    pub(super) fn of(self, demand: Demand, workers: usize, handlers: usize) -> Self {
        Self { runs: demand.most_runs(workers, handlers), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Capacity = Capacity {
        workers: 4,
        hot: Bound { count: 1_000, bytes: 64 },
        cold: Bound { count: 10, bytes: 32 },
    };

    /// Holds D8.
    #[test]
    fn one_of_several_handlers_has_half_at_most_and_one_alone_has_all() {
        let alone = ALL.share(1);
        assert_eq!((alone.runs, alone.hot.most, alone.cold.most), (4, ALL.hot, ALL.cold));
        let one = ALL.share(3);
        assert_eq!((one.runs, one.hot.most), (2, Bound { count: 500, bytes: 32 }));
        assert_eq!((one.hot.own, one.cold.own.count), (Bound { count: 125, bytes: 8 }, 1));
        let small = Capacity { workers: 1, hot: Bound { count: 1, bytes: 1 }, ..ALL };
        let one = small.share(2);
        assert_eq!((one.runs, one.hot.own, one.hot.most), (1, small.hot, small.hot));
    }

    #[test]
    fn a_limit_of_its_own_is_about_workers_and_never_more_than_there_are() {
        let of = |runs| ALL.share(2).of(Demand { runs, batch: 1 }, ALL.workers, 2);
        assert_eq!((of(None).runs, of(Some(3)).runs, of(Some(9)).runs), (2, 3, 4));
        assert_eq!((of(Some(0)).runs, of(Some(1)).cold), (1, ALL.share(2).cold));
    }
}
