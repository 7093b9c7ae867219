-- sendoff_emit: write an event from any language, in the caller's own transaction.
-- Guarantee: the limits of every other writer, each with one error that names the field, its size and the
-- limit; the same columns and the same shard. No error shows a part of the payload. It commits nothing. The
-- arguments are as wide as a text can be: a session that is not strict would cut what is too long before
-- anything here could refuse it. It has the rights of its caller, and needs no account to have made it.
-- `payload` is bytes, which are kept as they are; JSON in UTF-8 unless `options` have another content_type.
-- `options` are a JSON object of what is not as usual, or NULL.
-- Index: primary key.
create procedure sendoff.sendoff_emit(
    in  event_type longtext character set utf8mb4,
    in  payload    longblob,
    in  options    longtext character set utf8mb4,
    out event_id   char(36) character set utf8mb4
)
comment 'sendoff 3'
modifies sql data
sql security invoker
begin
    -- Read once, so that the row is due exactly `delay_seconds` after it was created.
    declare at             datetime(6)  default utc_timestamp(6);
    declare aggregate_type longtext     character set utf8mb4 default '__GLOBAL__';
    declare aggregate_id   longtext     character set utf8mb4 default null;
    declare tenant_id      longtext     character set utf8mb4 default null;
    declare ordering_key   longtext     character set utf8mb4 default null;
    declare content_type   longtext     character set utf8mb4 default 'application/json';
    declare headers        longtext     character set utf8mb4 default null;
    declare delay          decimal(30, 6) default 0;
    declare given_id       longtext     character set utf8mb4 default null;
    declare new_id         binary(16);
    declare shard          tinyint unsigned;
    declare list           longtext     character set utf8mb4;
    declare name           longtext     character set utf8mb4;
    declare kind           varchar(32)  character set utf8mb4;
    declare value          longtext     character set utf8mb4;
    declare most           int;
    declare nth            int          default 0;
    declare size           bigint;
    declare refusal        varchar(512) character set utf8mb4 default null;

    set event_id = null;
    -- include options
    while nth < json_length(list) do
        set name = json_unquote(json_extract(list, concat('$[', nth, ']'))), nth = nth + 1;
        if cast(name as binary) not in ('aggregate_type', 'aggregate_id', 'tenant_id', 'ordering_key',
                                        'headers', 'content_type', 'event_id', 'delay_seconds') then
            set refusal = concat('options: ', left(name, 64), ' is not known');
            signal sqlstate '22023' set message_text = refusal;
        end if;
        -- include option
        if kind = 'NULL' then
            set kind = null;
        elseif name = 'headers' then
            set headers = if(kind = 'OBJECT', value, '[]');
        elseif name = 'delay_seconds' then
            if kind not in ('INTEGER', 'UNSIGNED INTEGER', 'DOUBLE', 'DECIMAL')
               or value + 0e0 not between 0 and 315360000 then
                set refusal = concat('delay_seconds is ', left(value, 32),
                                     '; it must be a number between 0 and 315360000');
                signal sqlstate '22023' set message_text = refusal;
            end if;
            set delay = value;
        elseif kind <> 'STRING' then
            set refusal = concat(name, ' must be a JSON string');
            signal sqlstate '22023' set message_text = refusal;
        else
            set value = json_unquote(value);
            case name
                when 'aggregate_type' then set aggregate_type = value;
                when 'aggregate_id' then set aggregate_id = value;
                when 'tenant_id' then set tenant_id = value;
                when 'ordering_key' then set ordering_key = value;
                when 'content_type' then set content_type = value;
                else set given_id = value;
            end case;
        end if;
    end while;

    if coalesce(char_length(event_type), 0) = 0 then
        signal sqlstate '22023' set message_text = 'event_type must not be empty';
    end if;
    if char_length(aggregate_type) = 0 then
        signal sqlstate '22023' set message_text = 'aggregate_type must not be empty';
    end if;
    -- include payload
    set nth = 1;
    while nth <= 6 do
        set name = elt(nth, 'event_type', 'aggregate_type', 'aggregate_id', 'tenant_id', 'ordering_key',
                            'content_type'),
            value = elt(nth, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key,
                             content_type),
            most = elt(nth, 128, 64, 128, 64, 128, 128),
            nth = nth + 1;
        -- include name
    end while;

    -- include headers
    -- include json
    -- include id
    set shard = conv(if(ordering_key is null, right(hex(new_id), 2), left(sha2(ordering_key, 256), 2)),
                     16, 10) % 64,
        refusal = concat('an event with the event_id ', value, ' is there already');
    -- The key of a table in partitions cannot tell.
    if given_id is not null
       and exists (select 1 from sendoff.outbox_event e where e.event_id = new_id) then
        signal sqlstate '23000' set message_text = refusal, mysql_errno = 1062;
    end if;
    begin
        declare said text character set utf8mb4;
        declare exit handler for 1062
        begin
            get diagnostics condition 1 said = message_text;
            -- Not a key of a trigger's.
            if said like '%PRIMARY''' then
                signal sqlstate '23000' set message_text = refusal, mysql_errno = 1062;
            end if;
            resignal;
        end;
        -- A table that takes JSON only, of bytes that are no text: the server would show some of them.
        declare exit handler for 1300
            signal sqlstate '22032' set message_text = 'payload is not JSON, which is all this outbox takes';
        insert into sendoff.outbox_event
               (event_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
                content_type, occurred_at, due_at, created_at, headers, payload, delayed_until)
        values (new_id, event_type, aggregate_type, aggregate_id, tenant_id, ordering_key, shard,
                content_type, at,
                -- A row with a key and without a delay is in line: see migration 6.
                if(ordering_key is not null and delay = 0, date'9998-01-01',
                   at + interval round(delay * 1000000) microsecond),
                at, headers, payload,
                if(delay > 0, at + interval round(delay * 1000000) microsecond, null));
    end;
    set event_id = value;
end
