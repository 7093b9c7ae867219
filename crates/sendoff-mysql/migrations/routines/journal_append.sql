-- journal_append: append a fact from any language, in the caller's own transaction, under a condition if there
-- is one; `place` is its position.
-- Guarantee: takes the locks that every other writer of this journal takes, so that those who exclude one
-- another meet, whatever they are written in; the limits of every other writer. It commits nothing, and where
-- no transaction is open it appends nothing. `tags` are a JSON array; `options` a JSON object of what is not as
-- usual, or NULL. Of them, `unless` are the facts that must not be there above the position `after`: an array
-- of items, each {"types": [...], "tags": [...]}, of which a fact is meant if it has one of the types and all
-- of the tags. Where there is one, an error (23000), and nothing was changed; the session must be at READ
-- COMMITTED. A fact that is there already with the same id and the same content answers with its position.
-- It waits for others as long as the session waits for rows. No error shows a part of the payload. It has the
-- rights of its caller.
-- The condition is read by locking reads, which see what is committed whatever the transaction saw before.
-- Index: as the searches of an append: primary keys, (event_type, position); unique (event_id).
create procedure sendoff.journal_append(
    in  event_type longtext character set utf8mb4,
    in  payload    longblob,
    in  tags       longtext character set utf8mb4,
    in  options    longtext character set utf8mb4,
    out place      bigint
)
comment 'sendoff 2'
modifies sql data
sql security invoker
begin
    declare at           datetime(6)  default utc_timestamp(6);
    declare content_type longtext     character set utf8mb4 default 'application/json';
    declare headers      longtext     character set utf8mb4 default null;
    declare given_id     longtext     character set utf8mb4 default null;
    declare correlation  longtext     character set utf8mb4 default null;
    declare causation    longtext     character set utf8mb4 default null;
    declare unless       longtext     character set utf8mb4 default null;
    declare after        bigint       default 0;
    declare new_id       binary(16);
    declare id_text      char(36)     character set utf8mb4;
    declare sorted       longtext     character set utf8mb4;
    declare wanted       longtext     character set utf8mb4;
    declare slots        longtext     character set utf8mb4;
    declare items        longtext     character set utf8mb4 default '';
    declare item         longtext     character set utf8mb4;
    declare item_types   longtext     character set utf8mb4;
    declare item_tags    longtext     character set utf8mb4;
    declare many         int;
    declare slot         smallint unsigned;
    declare locked       int          default 0;
    declare tries        int          default 0;
    declare found        bigint;
    declare clash        bigint       default null;
    declare closed       int;
    declare list         longtext     character set utf8mb4;
    declare name         longtext     character set utf8mb4;
    declare kind         varchar(32)  character set utf8mb4;
    declare value        longtext     character set utf8mb4;
    declare most         int;
    declare nth          int          default 0;
    declare inner_nth    int          default 0;
    declare size         bigint;
    declare refusal      varchar(512) character set utf8mb4 default null;
    declare tag varchar(193) character set utf8mb4
        collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
    declare of_type varchar(128) character set utf8mb4
        collate /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

    set place = null;
    -- include options
    while nth < json_length(list) do
        set name = json_unquote(json_extract(list, concat('$[', nth, ']'))), nth = nth + 1;
        if cast(name as binary) not in ('unless', 'after', 'headers', 'content_type', 'event_id',
                                        'correlation_id', 'causation_id') then
            set refusal = concat('options: ', left(name, 64), ' is not known');
            signal sqlstate '22023' set message_text = refusal;
        end if;
        -- include option
        if kind = 'NULL' then
            set kind = null;
        elseif name = 'headers' then
            set headers = if(kind = 'OBJECT', value, '[]');
        elseif name = 'unless' then
            set unless = if(kind = 'OBJECT', concat('[', value, ']'), value);
        elseif name = 'after' then
            if kind not in ('INTEGER', 'UNSIGNED INTEGER') or value + 0e0 not between 0 and 9223372036854775806
            then
                set refusal = concat('after is ', left(value, 32), '; it must be a position, 0 or more');
                signal sqlstate '22023' set message_text = refusal;
            end if;
            set after = value;
        elseif kind <> 'STRING' then
            set refusal = concat(name, ' must be a JSON string');
            signal sqlstate '22023' set message_text = refusal;
        else
            set value = json_unquote(value);
            if name <> 'content_type'
               and (char_length(value) <> 36
                    or not value regexp '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$') then
                set refusal = concat(name, ' must be a UUID');
                signal sqlstate '22023' set message_text = refusal;
            end if;
            case name
                when 'content_type' then set content_type = value;
                when 'event_id' then set given_id = value;
                when 'correlation_id' then set correlation = value;
                else set causation = value;
            end case;
        end if;
    end while;

    if coalesce(char_length(event_type), 0) = 0 then
        signal sqlstate '22023' set message_text = 'event_type must not be empty';
    end if;
    -- include payload
    set nth = 1;
    while nth <= 2 do
        set name = elt(nth, 'event_type', 'content_type'), value = elt(nth, event_type, content_type),
            most = 128, nth = nth + 1;
        -- include name
    end while;
    -- include headers
    -- include json
    -- include id
    set id_text = value;

    call sendoff.journal_tags(tags, sorted, many);
    -- Shared: the type and each tag of the fact.
    set wanted = json_array(json_array(concat(':', event_type), 0)), nth = 0;
    while nth < many do
        set wanted = json_array_append(wanted, '$', json_array(
                concat('=', json_unquote(json_extract(sorted, concat('$[', nth, ']')))), 0)),
            nth = nth + 1;
    end while;

    -- Alone: of each item one tag, else its types, else the journal.
    if unless is not null then
        if json_type(unless) <> 'ARRAY' then
            signal sqlstate '22023' set message_text =
                'unless must be an array of items, such as [{"types": ["a"], "tags": ["k=v"]}]';
        end if;
        set size = json_length(unless);
        if size > 256 then
            set refusal = concat('items of unless: ', size, ' given; the limit is 256');
            signal sqlstate '22023' set message_text = refusal;
        end if;
        if size = 0 then
            set unless = '[{}]', size = 1;
        end if;
        set nth = 0;
        while nth < size do
            set item = json_extract(unless, concat('$[', nth, ']')), nth = nth + 1;
            if json_type(item) <> 'OBJECT' then
                signal sqlstate '22023' set message_text =
                    'an item of unless has "types" and "tags", which are arrays of strings';
            end if;
            set item_types = coalesce(json_extract(item, '$.types'), '[]'),
                item_tags = coalesce(json_extract(item, '$.tags'), '[]');
            if json_type(item_types) <> 'ARRAY' or json_type(item_tags) <> 'ARRAY'
               or json_length(item) <> json_contains_path(item, 'one', '$.types')
                                       + json_contains_path(item, 'one', '$.tags') then
                signal sqlstate '22023' set message_text =
                    'an item of unless has "types" and "tags", which are arrays of strings';
            end if;
            if json_length(item_types) > 256 then
                set refusal = concat('types of an item of unless: ', json_length(item_types),
                                     ' given; the limit is 256');
                signal sqlstate '22023' set message_text = refusal;
            end if;
            call sendoff.journal_tags(item_tags, item_tags, many);
            set inner_nth = 0;
            while inner_nth < json_length(item_types) do
                set value = json_extract(item_types, concat('$[', inner_nth, ']')),
                    inner_nth = inner_nth + 1;
                if json_type(value) <> 'STRING' then
                    signal sqlstate '22023' set message_text =
                        'an item of unless has "types" and "tags", which are arrays of strings';
                end if;
                set value = json_unquote(value), name = 'event_type', most = 128;
                -- include name
                if many = 0 then
                    set wanted = json_array_append(wanted, '$', json_array(concat(':', value), 1));
                end if;
            end while;
            if many > 0 then
                set wanted = json_array_append(wanted, '$', json_array(
                        concat('=', json_unquote(json_extract(item_tags, '$[0]'))), 1));
            elseif json_length(item_types) = 0 then
                set wanted = json_array_append(wanted, '$', json_array('', 1));
            end if;
            set items = concat(items, if(nth > 1, ',', ''), '[', item_types, ',', item_tags, ']');
        end while;
        set items = concat('[', items, ']');
        if /*!80000 @@session.transaction_isolation */ /*M!100600 @@session.tx_isolation */
           not in ('READ-COMMITTED', 'READ-UNCOMMITTED') then
            signal sqlstate '25000'
               set message_text = 'a condition needs a session at READ COMMITTED';
        end if;
    end if;
    call sendoff.journal_keys(wanted, slots);

    if @@session.auto_increment_increment <> 1 then
        signal sqlstate '55000'
           set message_text = 'auto_increment_increment is not 1: write to one server, and set it to 1 there';
    end if;
    begin
        -- Outside of a transaction a savepoint ends with the statement that set it, and so would locks.
        declare exit handler for 1305
            signal sqlstate '25000' set message_text = 'no transaction is open: begin one first';
        savepoint sendoff_append;
        release savepoint sendoff_append;
    end;
    savepoint sendoff_append;

    -- Ascending, so that two who do this cannot deadlock.
    set nth = 0;
    while nth < json_length(slots) do
        set slot = json_extract(slots, concat('$[', nth, '][0]'));
        if json_extract(slots, concat('$[', nth, '][1]')) = 1 then
            set locked = locked + (select max(a.slot) is not null from sendoff.journal_anchor a
                                    where a.slot = slot for update);
        else
            set locked = locked + (select max(a.slot) is not null from sendoff.journal_anchor a
                                    where a.slot = slot lock in share mode);
        end if;
        set nth = nth + 1;
    end while;
    if locked <> json_length(slots) then
        signal sqlstate '55000'
           set message_text = 'rows of journal_anchor are missing: run the script of the migration again';
    end if;

    -- In statements of their own after the locks.
    set nth = 0;
    while unless is not null and nth < size do
        set item_types = json_extract(items, concat('$[', nth, '][0]')),
            item_tags = json_extract(items, concat('$[', nth, '][1]')), nth = nth + 1, found = null;
        if json_length(item_tags) > 0 then
            set tag = json_unquote(json_extract(item_tags, '$[0]'));
            set found = (
                select t.position
                  from sendoff.journal_tag t force index (primary)
                       straight_join sendoff.journal_event e force index (primary) on e.position = t.position
                 where t.tag = tag and t.position > after
                   and (json_length(item_types) = 0
                        or exists (select 1 from json_table(item_types, '$[*]'
                                   columns (type varchar(128) character set utf8mb4 path '$')) w
                                    where w.type collate
                                          /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */
                                          = e.event_type))
                   and (select count(*)
                          from json_table(item_tags, '$[*]'
                               columns (tag varchar(193) character set utf8mb4 path '$')) w
                               straight_join sendoff.journal_tag o force index (primary)
                               on o.tag = w.tag collate
                                  /*M!100600 utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */
                              and o.position = t.position
                          /*!80001 for share of o */ /*M!100600 lock in share mode */) = json_length(item_tags)
                 order by t.position limit 1
                 /*!80001 for share of t, e */ /*M!100600 lock in share mode */);
        elseif json_length(item_types) > 0 then
            set inner_nth = 0;
            while inner_nth < json_length(item_types) do
                set of_type = json_unquote(json_extract(item_types, concat('$[', inner_nth, ']'))),
                    inner_nth = inner_nth + 1;
                set found = least(coalesce(found, 9223372036854775807), coalesce((
                    select e.position
                      from sendoff.journal_event e force index (journal_event_type)
                     where e.event_type = of_type and e.position > after
                     order by e.position limit 1 lock in share mode), 9223372036854775807));
            end while;
            set found = nullif(found, 9223372036854775807);
        else
            set found = (select e.position
                           from sendoff.journal_event e force index (primary)
                          where e.position > after and e.event_id is not null
                          order by e.position limit 1 lock in share mode);
        end if;
        set clash = if(clash is null or found < clash, coalesce(found, clash), clash);
    end while;

    each_try: while clash is null and place is null do
        begin
            -- The id is there, or somebody has filled the number.
            declare exit handler for 1062 set place = null;
            insert into sendoff.journal_event
                   (event_id, event_type, content_type, occurred_at, recorded_at, correlation_id,
                    causation_id, tags, headers, payload)
            values (new_id, event_type, content_type, at, utc_timestamp(6),
                    unhex(replace(correlation, '-', '')), unhex(replace(causation, '-', '')), sorted,
                    headers, payload);
            set place = last_insert_id();
        end;
        if place is null then
            if exists (select 1 from sendoff.journal_event e force index (journal_event_id)
                        where e.event_id = new_id lock in share mode) then
                leave each_try;
            end if;
        else
            -- A tail may have closed the number while it was taken: then it is another's, or nobody's.
            set closed = (select count(*) from sendoff.journal_hole h force index (primary)
                           where h.last_position >= place and h.first_position <= place
                            lock in share mode);
            if closed > 0 then
                rollback to savepoint sendoff_append;
                set place = null;
            end if;
        end if;
        set tries = tries + 1;
        if place is null and tries >= 16 then
            signal sqlstate '40001' set message_text = 'the number of an append was taken too often';
        end if;
    end while;

    if place is not null then
        set nth = 0;
        while nth < json_length(sorted) do
            insert into sendoff.journal_tag (tag, position)
            values (json_unquote(json_extract(sorted, concat('$[', nth, ']'))), place);
            set nth = nth + 1;
        end while;
    else
        -- What was appended before by the same call, whose answer was lost, is no conflict with itself.
        set place = (select e.position from sendoff.journal_event e force index (journal_event_id)
                      where e.event_id = new_id and cast(e.event_type as binary) = cast(event_type as binary)
                        and cast(e.content_type as binary) = cast(content_type as binary)
                        and cast(e.tags as binary) = cast(sorted as binary) and e.payload = payload
                       lock in share mode);
        if place is null and clash is not null then
            set refusal = concat('the condition does not hold: there is such a fact at position ', clash);
            signal sqlstate '23000' set message_text = refusal;
        elseif place is null then
            set refusal = concat('a fact with the event_id ', id_text,
                                 ' is there already, and is another');
            signal sqlstate '23000' set message_text = refusal, mysql_errno = 1062;
        end if;
    end if;
    release savepoint sendoff_append;
end
