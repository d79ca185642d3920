package inventory

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// A pack holds records in one value of the store, compressed, behind the filter of their
// terms:
//
//	version, 1 byte
//	number of records, uvarint
//	length of the filter, uvarint, and the filter
//	the records, compressed: each with its length, uvarint
//	the bill of the records
//
// CertificatePacks have version 2: the length of the digits of the records, uvarint, the digits,
// two an octet, and their text as in packtext.go, compressed.
type pack struct {
	records [][]byte // the JSON of each
	filter  filter
	bill    bill
	// revision is that of the stored value; 0 for a new pack.
	revision int64
}

const (
	packVersion, shortVersion = 1, 2
	// packRecords and packBytes bound the content of a pack. A pack is read as a whole for
	// each record that is found, and has to fit into a value of etcd. It is mostly filled in
	// one transaction, for which etcd takes 128 operations.
	packRecords = 120
	packBytes   = 768 << 10
	// mostText is the most text that is taken from a value.
	mostText = 2 * packBytes
)

// encode returns the pack in a version.
func (p *pack) encode(version byte) ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte(version)
	out.Write(binary.AppendUvarint(nil, uint64(len(p.records))))
	out.Write(binary.AppendUvarint(nil, uint64(len(p.filter))))
	out.Write(p.filter)
	var text []byte
	if version == shortVersion {
		var digits []byte
		text, digits = shortened(p.records)
		out.Write(append(binary.AppendUvarint(nil, uint64(len(digits))), digits...))
	} else {
		for _, record := range p.records {
			text = append(binary.AppendUvarint(text, uint64(len(record))), record...)
		}
	}
	compressed := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(compressed)
	compressed.Reset(&out)
	if _, err := compressed.Write(text); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	bill, err := p.bill.encode()
	if err != nil {
		return nil, err
	}
	out.Write(bill)
	return out.Bytes(), nil
}

// deflaters are writers of compressed data. They are pooled because each has 800 KB of tables.
var deflaters = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.DefaultCompression) // fails only for other levels
	return w
}}

var errPack = errors.New("the pack is damaged, or of a newer version")

// decodeHeader returns the number of records of a pack, its filter, which shares memory
// with data, and the rest.
func decodeHeader(data []byte) (count int, f filter, rest []byte, err error) {
	if len(data) == 0 || data[0] != packVersion && data[0] != shortVersion {
		return 0, nil, nil, errPack
	}
	in := bytes.NewReader(data[1:])
	number, err := binary.ReadUvarint(in)
	if err != nil || number > packRecords {
		return 0, nil, nil, errPack
	}
	size, err := binary.ReadUvarint(in)
	if err != nil || size == 0 || size > uint64(in.Len()) {
		return 0, nil, nil, errPack
	}
	rest = data[len(data)-in.Len():]
	return int(number), filter(rest[:size]), rest[size:], nil
}

func decodePack(data []byte) (*pack, error) {
	count, f, rest, err := decodeHeader(data)
	if err != nil {
		return nil, err
	}
	p := &pack{filter: f, records: make([][]byte, 0, count)}
	var digits []byte
	if data[0] == shortVersion {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return nil, errPack
		}
		digits, rest = rest[n:n+int(size)], rest[n+int(size):]
	}
	text, err := inflate(rest)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPack, err)
	}
	if data[0] == shortVersion {
		if p.records, err = lengthened(text, digits); err == nil && len(p.records) != count {
			err = errPack
		}
		return p, err
	}
	for range count {
		size, n := binary.Uvarint(text)
		if n <= 0 || size > uint64(len(text)-n) {
			return nil, errPack
		}
		p.records = append(p.records, text[n:n+int(size)])
		text = text[n+int(size):]
	}
	return p, nil
}

// inflaters are readers of compressed data. They are pooled because each has 40 KB of
// tables.
var inflaters = sync.Pool{New: func() any { return flate.NewReader(bytes.NewReader(nil)) }}

// inflate returns the text of compressed data, up to a bound.
func inflate(data []byte) ([]byte, error) {
	const ratio = 8 // of records of hosts that renew
	reader := inflaters.Get().(io.ReadCloser)
	defer inflaters.Put(reader)
	if err := reader.(flate.Resetter).Reset(bytes.NewReader(data), nil); err != nil {
		return nil, err
	}
	text := bytes.NewBuffer(make([]byte, 0, min(ratio*len(data), mostText)))
	_, err := text.ReadFrom(io.LimitReader(reader, mostText))
	return text.Bytes(), err
}
