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

    fn half(self) -> Self {
        Self { count: (self.count / 2).max(1), bytes: (self.bytes / 2).max(1) }
    }
}

/// What there is, or what of it one handler may have: workers, and room in each lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quota {
    pub(crate) workers: usize,
    pub(crate) hot: Bound,
    pub(crate) cold: Bound,
}

impl Quota {
    /// The part of a handler that is one of `handlers`, with a limit of its own or without.
    ///
    /// A handler that is alone has everything. One of several has half of it, at least one worker and
    /// one place: whatever hangs, the others go on.
    pub(crate) fn share(self, handlers: usize, limit: Option<usize>) -> Self {
        let part = if handlers > 1 {
            let workers = (self.workers / 2).max(1);
            Self { workers, hot: self.hot.half(), cold: self.cold.half() }
        } else {
            self
        };
        let workers = limit.unwrap_or(part.workers).clamp(1, self.workers.max(1));
        Self { workers, ..part }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Quota = Quota {
        workers: 4,
        hot: Bound { count: 1_000, bytes: 64 },
        cold: Bound { count: 10, bytes: 32 },
    };

    /// Holds D8.
    #[test]
    fn one_of_several_handlers_has_half_and_one_alone_has_all() {
        assert_eq!(ALL.share(1, None), ALL);
        let half = ALL.share(3, None);
        assert_eq!((half.workers, half.hot.count, half.hot.bytes), (2, 500, 32));
        assert_eq!((half.cold.count, half.cold.bytes), (5, 16));
        let one = Quota { workers: 1, hot: Bound { count: 1, bytes: 1 }, ..ALL };
        assert_eq!(one.share(2, None).workers, 1);
        assert_eq!(one.share(2, None).hot, Bound { count: 1, bytes: 1 });
    }

    #[test]
    fn a_limit_of_its_own_is_about_workers_and_never_more_than_there_are() {
        assert_eq!(ALL.share(2, Some(3)).workers, 3);
        assert_eq!(ALL.share(2, Some(9)).workers, 4);
        assert_eq!(ALL.share(1, Some(0)).workers, 1);
        assert_eq!(ALL.share(1, Some(1)).cold, ALL.cold);
    }
}
