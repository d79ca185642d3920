package filewatch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// pair are two files, and what was done with their contents.
type pair struct {
	Files
	a, b     string // paths
	used     []string
	reported []string
	refuse   error // by Use
}

func newPair(t *testing.T) *pair {
	t.Helper()
	dir := t.TempDir()
	p := &pair{a: filepath.Join(dir, "a"), b: filepath.Join(dir, "b")}
	p.Files.Files = []File{{p.a, "reading a"}, {p.b, "reading b"}, {}}
	p.Use = func(_ context.Context, c Contents) error {
		if p.refuse == nil {
			p.used = append(p.used, string(c.Data[0])+string(c.Data[1])+string(c.Data[2]))
		}
		return p.refuse
	}
	p.Report = func(_ context.Context, failure error) {
		text := "fine"
		if failure != nil {
			text = failure.Error()
		}
		p.reported = append(p.reported, text)
	}
	p.write(t, "1", "1")
	return p
}

func (p *pair) write(t *testing.T, a, b string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(p.a, []byte(a), 0o600), os.WriteFile(p.b, []byte(b), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func (p *pair) want(t *testing.T, reason string, used, reported []string) {
	t.Helper()
	if !slices.Equal(p.used, used) {
		t.Errorf("%s: used %q, want %q", reason, p.used, used)
	}
	if !slices.Equal(p.reported, reported) {
		t.Errorf("%s: reported %q, want %q", reason, p.reported, reported)
	}
	p.used, p.reported = nil, nil
}

func TestLook(t *testing.T) {
	p := newPair(t)
	look := func(reason string, used, reported []string) {
		t.Helper()
		_ = p.Look(t.Context())
		p.want(t, reason, used, reported)
	}
	if err := p.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.want(t, "opened", []string{"11"}, nil)
	look("unchanged", nil, nil)
	p.write(t, "2", "1")
	look("the first file is written", nil, nil)
	p.write(t, "2", "2")
	look("the second file is written", nil, nil)
	look("the same at two looks", []string{"22"}, nil)
	look("unchanged again", nil, nil)

	p.refuse = errors.New("no")
	p.write(t, "3", "3")
	look("a bad change at the first look", nil, nil)
	look("a bad change", nil, []string{"no"})
	look("a bad change is tried again, and said once", nil, nil)
	p.refuse = nil
	look("what was bad can be used", []string{"33"}, []string{"fine"})

	if err := os.Remove(p.b); err != nil {
		t.Fatal(err)
	}
	look("gone at the first look", nil, nil)
	look("gone", nil, []string{"reading b: open " + p.b + ": no such file or directory"})
	p.write(t, "3", "3")
	look("back at the first look", nil, nil)
	look("back", nil, []string{"fine"})
}

// Look returns its error to callers that look when they need the files.
func TestLookSaysWhyNot(t *testing.T) {
	p := newPair(t)
	if err := p.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.refuse = errors.New("no")
	p.write(t, "2", "2")
	for i, want := range []error{nil, p.refuse, p.refuse} {
		if err := p.Look(t.Context()); !errors.Is(err, want) {
			t.Errorf("look %d: %v, want %v", i+1, err, want)
		}
	}
	p.write(t, "3", "3")
	if err := p.Look(t.Context()); !errors.Is(err, p.refuse) {
		t.Errorf("with a change that is not settled: %v", err)
	}
}

func TestAtOnce(t *testing.T) {
	p := newPair(t)
	p.AtOnce = true
	if err := p.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.write(t, "2", "2")
	if err := p.Look(t.Context()); err != nil {
		t.Error(err)
	}
	p.want(t, "one look", []string{"11", "22"}, nil)
}

// Files that were already read by other code are not used a second time.
func TestInUse(t *testing.T) {
	p := newPair(t)
	p.InUse([]byte("1"), []byte("1"), nil)
	for range 3 {
		_ = p.Look(t.Context())
	}
	p.want(t, "in use", nil, nil)
}

// A private key in a file does not stay in memory.
func TestContentsAreCleared(t *testing.T) {
	p := newPair(t)
	var kept []byte
	p.Use = func(_ context.Context, c Contents) error {
		kept = c.Data[0]
		return errors.New("no")
	}
	if err := p.Open(t.Context()); err == nil {
		t.Error("no error")
	}
	if string(kept) != "\x00" {
		t.Errorf("contents %q after Use", kept)
	}
}

// An error because the program ends is not a failure of the files.
func TestEndedIsNoFailure(t *testing.T) {
	p := newPair(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.Failed(ctx, ctx.Err())
	p.want(t, "ended", nil, nil)
}

func TestRun(t *testing.T) {
	p := newPair(t)
	used := make(chan string, 1)
	p.Use = func(_ context.Context, c Contents) error {
		used <- string(c.Data[0])
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	clock, ended := clocktesting.NewFakeClock(time.Now()), make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(ctx, clock, time.Second)
	}()
	for got := ""; got != "1"; {
		clock.Step(time.Second)
		select {
		case got = <-used:
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	<-ended
}
