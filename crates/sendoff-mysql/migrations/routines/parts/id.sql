    -- `new_id`: the id that was given, or a new one; `value`: the same as text.
    if given_id is not null then
        if char_length(given_id) <> 36
           or not given_id regexp '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' then
            signal sqlstate '22023'
               set message_text = 'event_id must be a UUID, such as 0190a9c4-0000-7000-8000-000000000001';
        end if;
        set new_id = unhex(replace(given_id, '-', ''));
    else
        -- UUIDv7: milliseconds, then chance.
        set value = sha2(concat(uuid(), rand(), connection_id()), 256),
            new_id = unhex(concat(lpad(hex(timestampdiff(microsecond, '1970-01-01', at) div 1000), 12, '0'),
                                  '7', left(value, 3),
                                  elt(1 + conv(substr(value, 4, 1), 16, 10) % 4, '8', '9', 'a', 'b'),
                                  substr(value, 5, 15)));
    end if;
    set value = lower(hex(new_id)),
        value = concat_ws('-', substr(value, 1, 8), substr(value, 9, 4), substr(value, 13, 4),
                          substr(value, 17, 4), substr(value, 21));
