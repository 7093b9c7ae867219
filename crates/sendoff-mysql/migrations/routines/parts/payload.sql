    if payload is null then
        signal sqlstate '22004' set message_text = 'payload is missing';
    end if;
    if length(payload) > 1048576 then
        set refusal = concat('payload is ', length(payload), ' bytes; the limit is 1048576');
        signal sqlstate '22001' set message_text = refusal;
    end if;
