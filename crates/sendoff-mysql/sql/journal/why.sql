-- why: why a gate was closed, or that it was passed and something else was. Index: none.
select cast(@sendoff_clash as signed), cast(@sendoff_locked as signed),
       cast(@@session.auto_increment_increment as signed),
       cast(/*!80000 @@session.transaction_isolation */ /*M!100600 @@session.tx_isolation */
            in ('READ-COMMITTED', 'READ-UNCOMMITTED') as signed),
       cast(@sendoff_gate as signed)
