-- block: statements as one on MariaDB, where each would be answered in a packet of its own
-- otherwise; on MySQL, which has no blocks, one after the other.
-- Guarantee: the first error ends it either way, and leaves the rest out. Index: those of the statements.
/*M!100600 begin not atomic */ :statements /*M!100600 ; end */
