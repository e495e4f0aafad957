# must: bytes that are no text, NULs, escapes and lone surrogates give a record that is valid UTF-8
# control: none: it aims at the record, plain python writes none
# keeps: end of bytes
import sys
sys.stdout.buffer.write(bytes(range(256)) + b'\xff\xfe\xed\xa0\x80\x1b[2J\x1b]0;title\x07\r\b\n')
sys.stdout.buffer.flush()
print('\ud800 \udfff \u2028 \x85 end of bytes')
'\udcff'
