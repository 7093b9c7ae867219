-- relay_settings: what the store sets in its own sessions.
-- Guarantee: claims and settlements do not wait for the disk, since what a crash takes back is
-- delivered again; their plans do not depend on what the statistics believe.
set synchronous_commit = off;
set plan_cache_mode = force_generic_plan;
set enable_seqscan = off;
set enable_bitmapscan = off;
set enable_hashjoin = off;
set enable_mergejoin = off;
set jit = off;
