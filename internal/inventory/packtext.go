package inventory

import (
	"bytes"
	"encoding/hex"
	"slices"
)

// The text of records in CertificatePacks, before compression, has no other bytes below a space:
// JSON escapes them. Numbers up to mostCounted follow as one byte, plus mostCounted, so that they
// are not quotes.
const (
	// endMark ends a record.
	endMark = iota
	// sameMark stands for some tokens, which end at quotes, that the record before has there too.
	sameMark
	// againMark stands for a token of the same record, by its number.
	againMark
	// digitsMark stands for some hexadecimal digits, uuidMark for those of a UUID: they are apart,
	// because they are random and text takes more space.
	digitsMark
	uuidMark
	// nameMark stands for the name of the record, which is the beginning of its fingerprint, and
	// uidMark for its UID, which has the same digits.
	nameMark
	uidMark
)

const (
	leastDigits, leastAgain, mostCounted = 16, 4, 127
	uuidLength, uuidDigits   = 36, 32
)

// nameOf returns where the fingerprint of a record begins, and its first digits; 0 if it has none.
func nameOf(record []byte) (at int, name []byte) {
	before := []byte(`"fingerprint":"`)
	at = bytes.Index(record, before) + len(before)
	if at < len(before) || at+nameLength > len(record) {
		return 0, nil
	}
	return at, record[at : at+nameLength]
}

// uuidOf returns the UUID with some digits.
func uuidOf(digits []byte) []byte {
	return bytes.Join([][]byte{digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]}, []byte("-"))
}

// digitsAt returns the length of the UUID or the digits at the beginning of text; if these are too
// few, negative.
func digitsAt(text []byte) int {
	if len(text) >= uuidLength && text[8] == '-' && countDigits(text) == 8 && text[13] == '-' && text[18] == '-' && text[23] == '-' &&
		countDigits(bytes.ReplaceAll(text[:uuidLength], []byte("-"), nil)) == uuidDigits {
		return uuidLength
	}
	n := countDigits(text)
	if n < leastDigits {
		return -max(n, 1)
	}
	return n
}

func countDigits(text []byte) int {
	n := slices.IndexFunc(text[:min(mostCounted, len(text))], func(c byte) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'f') })
	if n < 0 {
		return min(mostCounted, len(text))
	}
	return n
}

// eachPart calls is with each part of a text: digits that may be kept apart, and all between them.
func eachPart(text []byte, is func(part []byte, digits bool)) {
	for len(text) > 0 {
		n, digits := 0, 0
		for n < len(text) && digits <= 0 {
			if digits = digitsAt(text[n:]); digits <= 0 {
				n -= digits
			}
		}
		if is(text[:n], false); digits > 0 {
			is(text[n:n+digits], true)
			n += digits
		}
		text = text[n:]
	}
}

// shortened returns the text of records and their digits.
func shortened(records [][]byte) (text, digits []byte) {
	var of []byte // the digits, as text
	seen := map[string]int{}
	whole := make([][]byte, len(records))
	for i, record := range records {
		if at, name := nameOf(record); at > 0 {
			named := bytes.ReplaceAll(record[:at], uuidOf(name), []byte{uidMark})
			record = append(bytes.ReplaceAll(named, name, []byte{nameMark}), record[at:]...)
		}
		whole[i] = record
		eachPart(record, func(part []byte, digits bool) {
			if digits {
				seen[string(part)]++
			}
		})
	}
	var before [][]byte
	for _, record := range whole {
		var short []byte
		eachPart(record, func(part []byte, digits bool) {
			switch {
			case !digits || seen[string(part)] > 1: // compression finds what repeats
				short = append(short, part...)
			case part[8] == '-':
				short, of = append(short, uuidMark), append(of, bytes.ReplaceAll(part, []byte("-"), nil)...)
			default:
				short, of = append(short, digitsMark, byte(mostCounted+len(part))), append(of, part...)
			}
		})
		tokens, first := bytes.Split(short, []byte(`"`)), map[string]int{}
		for i, token := range tokens[:min(mostCounted, len(tokens))] {
			if at, again := first[string(token)]; !again {
				first[string(token)] = i
			} else if len(token) >= leastAgain {
				tokens[i] = []byte{againMark, byte(mostCounted + at)}
			}
		}
		for i := 0; i < len(tokens); {
			same := 0
			for i+same < min(len(tokens), len(before)) && same < mostCounted && bytes.Equal(tokens[i+same], before[i+same]) {
				same++
			}
			if same > 0 {
				text = append(text, sameMark, byte(mostCounted+same))
				i += same
				continue
			}
			text = append(append(text, tokens[i]...), '"')
			i++
		}
		text, before = append(text, endMark), tokens
	}
	if len(of)%2 > 0 {
		of = append(of, '0')
	}
	digits = make([]byte, len(of)/2)
	_, _ = hex.Decode(digits, of) // it has nothing but digits
	return text, digits
}

// lengthened returns the records of a text and digits.
func lengthened(text, digits []byte) (records [][]byte, err error) {
	of, size := []byte(hex.EncodeToString(digits)), 0
	var before, tokens [][]byte
	for len(text) > 0 {
		switch text[0] {
		case endMark:
			var record []byte
			whole := slices.Clone(tokens)
			for i, token := range tokens {
				if len(token) < 2 || token[0] != againMark {
					continue
				}
				at := int(token[1]) - mostCounted
				if at < 0 || at >= i {
					return nil, errPack
				}
				whole[i], size = tokens[at], size+len(tokens[at])
			}
			if size > mostText {
				return nil, errPack
			}
			if record, of, err = restored(bytes.Join(whole, []byte(`"`)), of); err != nil {
				return nil, err
			}
			records, before, tokens, text = append(records, record), tokens, nil, text[1:]
		case sameMark:
			n := 0
			if len(text) > 1 {
				n = int(text[1]) - mostCounted
			}
			if n <= 0 || len(tokens)+n > len(before) {
				return nil, errPack
			}
			for _, token := range before[len(tokens) : len(tokens)+n] {
				size += len(token) + 1
			}
			tokens, text = append(tokens, before[len(tokens):len(tokens)+n]...), text[2:]
		default:
			token, rest, ok := bytes.Cut(text, []byte(`"`))
			if !ok {
				return nil, errPack
			}
			tokens, text, size = append(tokens, token), rest, size+len(token)+1
		}
		if size > mostText {
			return nil, errPack
		}
	}
	return records, nil
}

// restored returns a record with its digits, and the other digits.
func restored(short, digits []byte) (record, rest []byte, err error) {
	for {
		at := bytes.IndexAny(short, string([]byte{digitsMark, uuidMark}))
		if at < 0 {
			break
		}
		n, mark := uuidDigits, short[at:at+1]
		if mark[0] == digitsMark && at+1 < len(short) {
			n, mark = int(short[at+1])-mostCounted, short[at:at+2]
		}
		if n <= 0 || n > len(digits) {
			return nil, nil, errPack
		}
		record = append(record, short[:at]...)
		if part := digits[:n]; mark[0] == uuidMark {
			record = append(record, uuidOf(part)...)
		} else {
			record = append(record, part...)
		}
		short, digits = short[at+len(mark):], digits[n:]
	}
	record = append(record, short...)
	if at, name := nameOf(record); at > 0 {
		named := bytes.ReplaceAll(record[:at], []byte{nameMark}, name)
		record = append(bytes.ReplaceAll(named, []byte{uidMark}, uuidOf(name)), record[at:]...)
	}
	return record, digits, nil
}
