package pki

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"regexp"
	"strings"
)

// The beginnings of the lines around a PEM block (RFC 7468 section 3).
var (
	pemBegin = []byte("-----BEGIN ")
	pemEnd   = []byte("-----END ")
	dashes   = []byte("-----")
)

// damagedBoundary finds lines that were meant to be the boundary of a
// certificate, but are not: with other dashes, as word processors write them, or
// with other letters.
var damagedBoundary = regexp.MustCompile(`(?i)[-\x{2010}-\x{2015}\x{2212}]{2,}\s*(BEGIN|END)\s+([A-Z0-9]+\s+)?CERTIFICATE\s*[-\x{2010}-\x{2015}\x{2212}]{2,}`)

// Blocks returns the PEM blocks in data, in their order. A block that cannot be read is an
// error, which names its line and its defect. Package encoding/pem skips such blocks as
// text: they would be lost silently. Text outside of blocks is ignored (RFC 7468 section 2).
// No error shows the content of a block.
func Blocks(data []byte) ([]*pem.Block, error) {
	var blocks []*pem.Block
	for at := 0; ; {
		begin := bytes.Index(data[at:], pemBegin)
		if begin < 0 {
			return blocks, checkText(data, at, len(data))
		}
		begin += at
		if err := checkText(data, at, begin); err != nil {
			return nil, err
		}
		block, end, problem := blockAt(data, begin)
		if problem != "" {
			return nil, fmt.Errorf("line %d: the PEM block cannot be read: %s", lineOf(data, begin), problem)
		}
		blocks, at = append(blocks, block), end
	}
}

// blockAt reads the block whose first line begins at an offset. It returns the offset after
// its last line, or the block's defect.
func blockAt(data []byte, begin int) (block *pem.Block, end int, problem string) {
	if before := lineBefore(data, begin); before != "" {
		return nil, 0, misplaced(before)
	}
	first, _, _ := bytes.Cut(data[begin:], []byte("\n"))
	label, closed := bytes.CutSuffix(bytes.TrimRight(first[len(pemBegin):], " \t\r"), dashes)
	if !closed {
		return nil, 0, "its first line must end with five dashes, and nothing after them"
	}
	last := bytes.Index(data[begin:], append(append([]byte{'\n'}, pemEnd...), append(bytes.Clone(label), dashes...)...))
	next := bytes.Index(data[begin+len(pemBegin):], pemBegin)
	if last < 0 || next >= 0 && next+len(pemBegin) < last {
		return nil, 0, "it has no separate last line (-----END and the same label): the file may have been cut, or two lines joined"
	}
	end = len(data)
	if stop := bytes.IndexByte(data[begin+last+1:], '\n'); stop >= 0 {
		end = begin + last + 1 + stop + 1
	}
	if after := data[begin+last+1+len(pemEnd)+len(label)+len(dashes) : end]; len(bytes.TrimSpace(after)) > 0 {
		return nil, 0, "text follows on its last line, as if the next block had been joined to it: put a line break after -----END and the label"
	}
	block, rest := pem.Decode(data[begin:end])
	if block == nil || len(rest) > 0 {
		return nil, 0, "its content is not base64"
	}
	return block, end, ""
}

// misplaced describes the defect of a boundary after other text in its line.
func misplaced(before string) string {
	switch {
	case before == "\ufeff":
		return "a byte order mark is before it: save the file as UTF-8 without one"
	case strings.TrimSpace(before) == "":
		return "its first line is indented: remove the white space before it"
	}
	return "other text is before it on the same line"
}

func lineBefore(data []byte, at int) string {
	return string(data[bytes.LastIndexByte(data[:at], '\n')+1 : at])
}

func lineOf(data []byte, at int) int { return bytes.Count(data[:at], []byte{'\n'}) + 1 }

// checkText refuses text outside of blocks that was meant to be part of one.
func checkText(data []byte, from, to int) error {
	text := data[from:to]
	if at := bytes.Index(text, pemEnd); at >= 0 {
		return fmt.Errorf("line %d: a PEM block ends here that does not begin: the file may have been cut, or its first line changed", lineOf(data, from+at))
	}
	if at := damagedBoundary.FindIndex(text); at != nil {
		return fmt.Errorf("line %d: this looks like the boundary of a PEM block, but is not one: write it with five dashes (-), in capital letters and with single spaces", lineOf(data, from+at[0]))
	}
	if from == 0 && (bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff"))) {
		return fmt.Errorf("the text is UTF-16, in which PEM cannot be read: save the file as UTF-8")
	}
	return nil
}
