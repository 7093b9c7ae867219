        set value = json_extract(options, concat('$.', name)), kind = json_type(value);
        -- MariaDB compares names as they are written: the option would be left out without a word.
        if value is null then
            set refusal = concat('options: ', name, ' must be written without escapes');
            signal sqlstate '22023' set message_text = refusal;
        end if;
