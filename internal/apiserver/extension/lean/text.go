package lean

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"reflect"
	"sync/atomic"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

const (
	// remembered is how many texts a field remembers.
	remembered = 512
	// longestRemembered is the length of the longest text that is remembered. With
	// the number of texts it bounds their memory, which clients can fill.
	longestRemembered = 8 << 10
)

// fieldTexts parses the texts of a field of all objects of a kind, and remembers those
// it has seen last: each is needed several times, while an object is written and
// while the write is seen by watches. It is safe for concurrent use.
type fieldTexts struct {
	name  string
	seed  maphash.Seed
	slots [remembered]atomic.Pointer[parsed]
	// inGo has values of texts in the Go type of the field.
	inGo [remembered]atomic.Pointer[inGo]
}

// inGo is a text and its value in a Go type, which must not be changed.
type inGo struct {
	text  JSON
	value reflect.Value
}

// parsed is a text and its value, which must not be changed.
type parsed struct {
	text  JSON
	value any
	// clean means that the text is as the definition wants it.
	clean bool
}

func newFieldTexts(name string) *fieldTexts { return &fieldTexts{name: name, seed: maphash.MakeSeed()} }

func (f *fieldTexts) slot(text JSON) *atomic.Pointer[parsed] { return &f.slots[f.number(text)] }

// number returns the slot of a text.
func (f *fieldTexts) number(text JSON) uint64 {
	return maphash.String(f.seed, string(text)) % remembered
}

// find returns nil if the text is not remembered.
func (f *fieldTexts) find(text JSON) *parsed {
	if p := f.slot(text).Load(); p != nil && p.text == text {
		return p
	}
	return nil
}

// remember keeps a value, which must not be changed afterwards.
func (f *fieldTexts) remember(p *parsed) {
	if len(p.text) <= longestRemembered {
		f.slot(p.text).Store(p)
	}
}

// value returns the value of a text that is not empty. It must not be changed.
func (f *fieldTexts) value(text JSON) (any, error) {
	if p := f.find(text); p != nil {
		return p.value, nil
	}
	value, err := f.parse(text)
	if err != nil {
		return nil, err
	}
	f.remember(&parsed{text: text, value: value})
	return value, nil
}

// parse returns a value of the caller's own.
func (f *fieldTexts) parse(text JSON) (any, error) {
	var value any
	if err := utiljson.Unmarshal([]byte(text), &value); err != nil {
		return nil, fmt.Errorf("parsing %s: %w", f.name, err)
	}
	return value, nil
}

// write returns the text of a field of an object; it is empty if the object does
// not have it.
func (f *fieldTexts) write(content map[string]any) (JSON, error) {
	value, has := content[f.name]
	if !has {
		return "", nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("encoding %s: %w", f.name, err)
	}
	return JSON(text), nil
}

// writeClean is write for content that is as the definition wants it, and is
// handed over.
func (f *fieldTexts) writeClean(content map[string]any) (JSON, error) {
	text, err := f.write(content)
	if err != nil || text == "" {
		return text, err
	}
	if p := f.find(text); p != nil && p.clean {
		return p.text, nil
	}
	f.remember(&parsed{text: text, value: content[f.name], clean: true})
	return text, nil
}
