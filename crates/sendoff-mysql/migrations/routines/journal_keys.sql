-- journal_keys: what an append locks. For journal_append.
-- `wanted` is a JSON array of what is to be locked, each as [kind and name, alone]: a tag has the kind '=', a
-- type ':', and an empty text is the journal. `slots` is a JSON array of rows of journal_anchor, in the order
-- in which they must be locked, each as [slot, alone].
-- Guarantee: the locks of every other writer of this journal (see `Locks` in sendoff-core): each slot once, in
-- its strongest mode; the journal alone where there are more than 64 keys. Reads no table. Index: none.
create procedure sendoff.journal_keys(
    in  wanted longtext character set utf8mb4,
    out slots  longtext character set utf8mb4
)
comment 'sendoff 1'
contains sql
sql security invoker
begin
    declare hashed longtext character set utf8mb4 default '[0,0]';
    declare name   longtext character set utf8mb4;
    declare part   longtext character set utf8mb4;
    declare many   int;
    declare whole  int;
    declare last   int default -1;
    declare slot   int;
    declare alone  int;
    declare nth    int default 0;

    -- The first four bytes of SHA-256 stand for a name, and 0 for the journal.
    while nth < json_length(wanted) do
        set part = json_extract(wanted, concat('$[', nth, ']')),
            name = json_unquote(json_extract(part, '$[0]')),
            hashed = concat(hashed, ',[',
                            if(char_length(name) = 0, 0, conv(left(sha2(name, 256), 8), 16, 10)), ',',
                            json_extract(part, '$[1]'), ']'),
            nth = nth + 1;
    end while;
    set hashed = concat('[', hashed, ']');
    select count(distinct w.hash), max(w.hash = 0 and w.alone = 1) into many, whole
      from json_table(hashed, '$[*]' columns (hash bigint unsigned path '$[0]',
                                              alone int path '$[1]')) w;
    if many > 64 or whole = 1 then
        set slots = '[[0,1]]';
    else
        set slots = '';
        each_slot: loop
            set slot = (select min(if(w.hash = 0, 0, 1 + w.hash % 4095))
                          from json_table(hashed, '$[*]' columns (hash bigint unsigned path '$[0]')) w
                         where if(w.hash = 0, 0, 1 + w.hash % 4095) > last);
            if slot is null then
                leave each_slot;
            end if;
            set alone = (select max(w.alone)
                           from json_table(hashed, '$[*]' columns (hash bigint unsigned path '$[0]',
                                                                   alone int path '$[1]')) w
                          where if(w.hash = 0, 0, 1 + w.hash % 4095) = slot),
                slots = concat(slots, if(last < 0, '', ','), '[', slot, ',', alone, ']'), last = slot;
        end loop;
        set slots = concat('[', slots, ']');
    end if;
end
