-- remove: everything the demo made.
drop schema sendoff_demo cascade
