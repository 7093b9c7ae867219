        if char_length(value) > most then
            set refusal = concat(name, ' has ', char_length(value), ' characters; the limit is ', most);
            signal sqlstate '22001' set message_text = refusal;
        end if;
        if locate(x'00', cast(value as binary)) + locate(x'0a', cast(value as binary))
           + locate(x'0d', cast(value as binary)) > 0 then
            set refusal = concat(name, ' must not contain a line break or NUL');
            signal sqlstate '22023' set message_text = refusal;
        end if;
