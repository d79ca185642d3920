package backup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/certplane/certplane/internal/store/datadir"
)

// A page of the largest values is bounded, too.
func TestPagesOfLargeValues(t *testing.T) {
	w, protection := newWorld(t), keyPair(t)
	w.edit(t, func(client *clientv3.Client) {
		for i := range 60 {
			put(t, client, fmt.Sprintf("/registry/configmaps/large-%d", i), strings.Repeat("x", 1<<20))
		}
	})
	file, err := os.Open(w.save(t, "b", w.saving(protection)))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	archive, err := protection.open(bufio.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	pages, most := 0, int64(0)
	if _, err := readMembers(archive, func(name string, _ fs.FileMode, data io.Reader) error {
		if strings.HasPrefix(name, storePrefix) {
			size, err := io.Copy(io.Discard, data)
			pages, most = pages+1, max(most, size)
			return err
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if pages < 2 || most > 34<<20 {
		t.Errorf("the largest of %d pages has %d bytes", pages, most)
	}
}

// heapMeter measures by how much the heap grows while something is read or written.
type heapMeter struct {
	calls       int
	begin, most uint64
}

func (m *heapMeter) look() {
	if m.calls++; m.calls%64 != 1 {
		return
	}
	m.most = max(m.most, heapSize())
}

func heapSize() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func (m *heapMeter) grown() uint64 { return max(m.most, m.begin) - m.begin }

// meteredFile is the file of the pages.
type meteredFile struct {
	*os.File
	*heapMeter
}

func (m meteredFile) Write(data []byte) (int, error) {
	m.look()
	return m.File.Write(data)
}

// ReadFrom hides that of the file, which needs no Write.
func (m meteredFile) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{m}, r)
}

// A backup is read piece by piece: pages of former versions can have a hundred MiB.
func TestReadingTakesLittleMemory(t *testing.T) {
	const bound, pageSize, pages = 48 << 20, 96 << 20, 3
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	file := filepath.Join(t.TempDir(), "b")
	writeLargePages(t, file, pages, pageSize/200)
	src, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	out, err := os.Create(filepath.Join(t.TempDir(), "pages"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	debug.FreeOSMemory()
	meter := &heapMeter{begin: heapSize()}
	if _, _, err := (Restoring{}).unpack(src, datadir.Dir(t.TempDir()), meteredFile{out, meter}); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	keys := 0
	if err := decodePages(bufio.NewReader(out), func(*mvccpb.KeyValue) error {
		keys++
		meter.look()
		return nil
	}); err != nil || keys != pages*200 {
		t.Errorf("%d keys, %v", keys, err)
	}
	if meter.grown() > bound {
		t.Errorf("reading %d MiB takes %d MiB, want at most %d", pages*pageSize>>20, meter.grown()>>20, bound>>20)
	}
}

func writeLargePages(t *testing.T, file string, pages, valueSize int) {
	t.Helper()
	dst, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	out, err := newWriter(dst, Protection{})
	if err != nil {
		t.Fatal(err)
	}
	var kvs []*mvccpb.KeyValue
	for i := range 200 {
		kvs = append(kvs, &mvccpb.KeyValue{Key: fmt.Appendf(nil, "/registry/x/%d", i), Value: bytes.Repeat([]byte("x"), valueSize), ModRevision: 1})
	}
	page, err := encodePage(kvs)
	if err != nil {
		t.Fatal(err)
	}
	err = out.addJSON(headerName, header{Form: form, Prefix: "/registry"})
	for i := range pages {
		err = errors.Join(err, out.add(fmt.Sprintf("%s%06d", storePrefix, i+1), 0o600, page))
	}
	if err = errors.Join(err, out.close(Summary{})); err != nil {
		t.Fatal(err)
	}
}

// FuzzMembers: a file that was changed is refused, and never more than its part is read.
func FuzzMembers(f *testing.F) {
	var plain bytes.Buffer
	out, err := newWriter(&plain, Protection{})
	if err != nil {
		f.Fatal(err)
	}
	page, err := encodePage([]*mvccpb.KeyValue{{Key: []byte("/registry/x/a"), Value: []byte("a"), ModRevision: 1, CreateRevision: 1}})
	if err != nil {
		f.Fatal(err)
	}
	if err := errors.Join(
		out.addJSON(headerName, header{Form: form, Prefix: "/registry"}), out.add(storePrefix+"000001", 0o600, page),
		out.add(pkiPrefix+"a.key", 0o600, []byte("k")), out.close(Summary{Keys: true}),
	); err != nil {
		f.Fatal(err)
	}
	archive, err := (Protection{}).open(bufio.NewReader(&plain))
	if err != nil {
		f.Fatal(err)
	}
	whole, err := io.ReadAll(archive)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var pages bytes.Buffer
		members := 0
		_, err := readMembers(bytes.NewReader(data), func(name string, _ fs.FileMode, data io.Reader) error {
			members++
			switch {
			case name == headerName:
				_, err := readHeader(data)
				return err
			case strings.HasPrefix(name, storePrefix):
				return copyPage(&pages, data)
			}
			_, err := readSmall(data)
			return err
		})
		if err == nil && members == 0 && !bytes.Contains(data, []byte(summaryName)) {
			t.Error("a file without a summary is whole")
		}
		if pages.Len() > len(data) {
			t.Errorf("%d bytes have pages of %d", len(data), pages.Len())
		}
		_ = decodePages(bufio.NewReader(&pages), func(kv *mvccpb.KeyValue) error { return context.Cause(t.Context()) })
	})
}
