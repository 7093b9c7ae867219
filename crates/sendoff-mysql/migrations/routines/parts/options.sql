    -- `list`: the names of the options.
    if options is not null and not coalesce(json_valid(options), 0) then
        signal sqlstate '22023' set message_text = 'options must be a JSON object, or null';
    end if;
    if options is not null and json_type(options) not in ('OBJECT', 'NULL') then
        signal sqlstate '22023' set message_text = 'options must be a JSON object, or null';
    end if;
    set list = if(options is null or json_type(options) = 'NULL', '[]', json_keys(options));
