    -- `headers`: as they are kept; NULL where there are none.
    if headers is not null then
        if json_type(headers) <> 'OBJECT' then
            signal sqlstate '22023'
               set message_text = 'headers must be a JSON object whose values are strings';
        end if;
        -- Far beyond the limit, whatever of it is escapes.
        if length(headers) > 262144 then
            set refusal = concat('headers are ', length(headers),
                                 ' bytes together; the limit is 32768');
            signal sqlstate '22001' set message_text = refusal;
        end if;
        set size = json_length(headers);
        if size > 64 then
            set refusal = concat('headers: ', size, ' given; the limit is 64');
            signal sqlstate '22023' set message_text = refusal;
        end if;
        -- Names and values in one list, the names first.
        set list = json_merge_preserve(json_keys(headers), coalesce(json_extract(headers, '$.*'), '[]')),
            nth = 0, most = 0;
        while nth < 2 * size do
            set value = json_extract(list, concat('$[', nth, ']'));
            if json_type(value) <> 'STRING' then
                signal sqlstate '22023'
                   set message_text = 'headers must be a JSON object whose values are strings';
            end if;
            set name = if(nth < size, 'header name', 'header value'), value = json_unquote(value),
                most = most + length(value);
            if nth < size and char_length(value) = 0 then
                signal sqlstate '22023' set message_text = 'header name must not be empty';
            end if;
            if nth < size and char_length(value) > 128 then
                set refusal = concat('header name has ', char_length(value),
                                     ' characters; the limit is 128');
                signal sqlstate '22001' set message_text = refusal;
            end if;
            if locate(x'00', cast(value as binary)) + locate(x'0a', cast(value as binary))
               + locate(x'0d', cast(value as binary)) > 0 then
                set refusal = concat(name, ' must not contain a line break or NUL');
                signal sqlstate '22023' set message_text = refusal;
            end if;
            set nth = nth + 1;
        end while;
        if most > 32768 then
            set refusal = concat('headers are ', most, ' bytes together; the limit is 32768');
            signal sqlstate '22001' set message_text = refusal;
        end if;
        if size = 0 then
            set headers = null;
        end if;
    end if;
