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
type pack struct {
	records [][]byte // the JSON of each
	filter  filter
	bill    bill
	// revision is that of the stored value; 0 for a new pack.
	revision int64
}

const (
	packVersion = 1
	// packRecords and packBytes bound the content of a pack. A pack is read as a whole for
	// each record that is found, and has to fit into a value of etcd. It is mostly filled in
	// one transaction, for which etcd takes 128 operations.
	packRecords = 120
	packBytes   = 768 << 10
)

func (p *pack) encode() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte(packVersion)
	out.Write(binary.AppendUvarint(nil, uint64(len(p.records))))
	out.Write(binary.AppendUvarint(nil, uint64(len(p.filter))))
	out.Write(p.filter)
	compressed := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(compressed)
	compressed.Reset(&out)
	for _, record := range p.records {
		if _, err := compressed.Write(binary.AppendUvarint(nil, uint64(len(record)))); err != nil {
			return nil, err
		}
		if _, err := compressed.Write(record); err != nil {
			return nil, err
		}
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
	if len(data) == 0 || data[0] != packVersion {
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
	text, err := inflate(rest)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPack, err)
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
	const (
		most  = 2 * packBytes
		ratio = 8 // of records of hosts that renew
	)
	reader := inflaters.Get().(io.ReadCloser)
	defer inflaters.Put(reader)
	if err := reader.(flate.Resetter).Reset(bytes.NewReader(data), nil); err != nil {
		return nil, err
	}
	text := bytes.NewBuffer(make([]byte, 0, min(ratio*len(data), most)))
	_, err := text.ReadFrom(io.LimitReader(reader, most))
	return text.Bytes(), err
}
