package inventory

import (
	"bytes"
	"encoding/hex"
)

// The text of the records of a CertificatePack has the tokens of their JSON, each with the quote
// behind it, and instead of some the following bytes, which JSON escapes. A number is one byte,
// zero plus the number, so that none is a quote.
const (
	endMark    = iota // the end of a record
	sameMark          // with a number: so many tokens that the record before has there, too
	digitsMark        // with numbers: that many hexadecimal digits each, with hyphens between them

	zero, mostNumber = 127, 128
	leastDigits      = 16 // shorter tokens stay text
)

var quote, hyphen = []byte(`"`), []byte("-")

// withoutDigits returns what stands for a token, and digits with those of the token.
func withoutDigits(token, digits []byte) (short, all []byte) {
	if len(token) < leastDigits || len(token) > mostNumber || len(bytes.Trim(token, "0123456789abcdef-")) > 0 {
		return token, digits
	}
	short, all = []byte{digitsMark}, digits
	for part := range bytes.SplitSeq(token, hyphen) {
		short, all = append(short, byte(zero+len(part))), append(all, part...)
	}
	return short, all
}

// shortened returns the text of records and their digits, two an octet: random digits take more
// space in text, and each reference of the compression to the record before takes three bytes.
func shortened(records [][]byte) (text, digits []byte) {
	seen := map[string]int{}
	for _, record := range records {
		for token := range bytes.SplitSeq(record, quote) {
			seen[string(token)]++
		}
	}
	var last [][]byte
	for _, record := range records {
		tokens := bytes.Split(record, quote)
		for i, token := range tokens {
			if seen[string(token)] == 1 {
				tokens[i], digits = withoutDigits(token, digits)
			}
		}
		for i := 0; i < len(tokens); {
			same := 0
			for i+same < min(len(tokens), len(last)) && same < mostNumber && bytes.Equal(tokens[i+same], last[i+same]) {
				same++
			}
			if i += same; same > 0 {
				text = append(text, sameMark, byte(zero+same))
				continue
			}
			text = append(append(text, tokens[i]...), '"')
			i++
		}
		text, last = append(text, endMark), tokens
	}
	if len(digits)%2 > 0 {
		digits = append(digits, '0')
	}
	n, _ := hex.Decode(digits, digits) // they are digits
	return text, digits[:n]
}

// lengthened returns the records of a text and digits.
func lengthened(text, digits []byte) (records [][]byte, err error) {
	digits = []byte(hex.EncodeToString(digits))
	var last, tokens [][]byte
	for size := 0; len(text) > 0 && size <= 2*mostText; {
		added := len(tokens)
		switch text[0] {
		case endMark:
			record := make([][]byte, len(tokens))
			for i, token := range tokens {
				if record[i], digits, err = withDigits(token, digits); err != nil {
					return nil, err
				}
			}
			records, last, tokens, text = append(records, bytes.Join(record, quote)), tokens, nil, text[1:]
			continue
		case sameMark:
			if len(text) < 2 || text[1] <= zero || added+int(text[1])-zero > len(last) {
				return nil, errPack
			}
			tokens, text = append(tokens, last[added:added+int(text[1])-zero]...), text[2:]
		default:
			token, rest, ok := bytes.Cut(text, quote)
			if !ok {
				return nil, errPack
			}
			tokens, text = append(tokens, token), rest
		}
		for _, token := range tokens[added:] {
			size += len(token) + 1
		}
	}
	if len(text) > 0 {
		return nil, errPack
	}
	return records, nil
}

// withDigits returns the token that a short one stands for, and the digits that are left.
func withDigits(short, digits []byte) (token, rest []byte, err error) {
	if len(short) == 0 || short[0] != digitsMark {
		return short, digits, nil
	}
	var parts [][]byte
	for _, number := range short[1:] {
		n := int(number) - zero
		if n < 0 || n > len(digits) {
			return nil, nil, errPack
		}
		parts, digits = append(parts, digits[:n]), digits[n:]
	}
	return bytes.Join(parts, hyphen), digits, nil
}
