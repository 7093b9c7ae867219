    if content_type = 'application/json' then
        -- MariaDB reads 31 levels and calls what is deeper invalid.
        set refusal = concat('payload is not valid JSON in UTF-8, or nested deeper than this server reads: ',
                             length(payload), ' bytes');
        begin
            -- What the server would say of bytes that are no text shows some of them.
            declare exit handler for sqlexception, sqlwarning
                signal sqlstate '22032' set message_text = refusal;
            if not coalesce(json_valid(convert(payload using utf8mb4)), 0) then
                signal sqlstate '22032' set message_text = refusal;
            end if;
        end;
    end if;
