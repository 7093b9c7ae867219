-- cursor_give: gives a pair up that this owner has under this epoch. Index: primary key.
update journal_cursor set leader = null, heartbeat_at = null, updated_at = ?2
 where leader = ?1 and topic = ?3 and publisher = ?4 and epoch = ?5
