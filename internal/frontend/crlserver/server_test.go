package crlserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/apitest/freeport"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// newLists returns the lists of a CA: a list that ends at noon and an hour.
func newLists(t *testing.T) (id string, lists *revocation.Lists) {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "CA", key, 365*24*time.Hour, noon.Add(-24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	index := revocation.NewIndex()
	list := &revocation.StoredList{Chain: [][]byte{ca.Certificate().Raw}, Number: 7, ThisUpdate: noon, NextUpdate: noon.Add(time.Hour)}
	linted, err := list.Lint(ca.Lists(), index, 0)
	if err != nil {
		t.Fatal(err)
	}
	der, err := linted.Sign(t.Context(), rand.Reader, func(context.Context, pki.SignedList) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := list.Seal(der, false); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	id, lists = revocation.ListID(ca.Certificate()), revocation.NewLists(index)
	lists.Set(id, 1, data, nil)
	return id, lists
}

// A list is kept by proxies until its end at most, and an ended one is never served.
func TestTimes(t *testing.T) {
	id, lists := newLists(t)
	now := noon
	s, err := New(Config{Lists: lists, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	get := func() http.Header {
		answer := httptest.NewRecorder()
		s.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/"+id+".crl", nil))
		answer.Header().Set("Code", answer.Result().Status)
		return answer.Header()
	}
	if h := get(); !strings.HasPrefix(h.Get("Code"), "503 ") || h.Get("Retry-After") != "60" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("before it is built: %v", h)
	}
	lists.Build(func(l *revocation.List) { t.Error(l.Err) })
	for _, tc := range []struct {
		after time.Duration
		want  string
		cache string
	}{
		{0, "200 ", "public, max-age=300"},
		{58 * time.Minute, "200 ", "public, max-age=120"},
		{time.Hour, "503 ", "no-store"},
	} {
		now = noon.Add(tc.after)
		if h := get(); !strings.HasPrefix(h.Get("Code"), tc.want) || h.Get("Cache-Control") != tc.cache {
			t.Errorf("after %v: %v", tc.after, h)
		}
	}
}

// Clients that send nothing do not keep others away: the oldest connection of an address is
// closed for a new one.
func TestConnections(t *testing.T) {
	id, lists := newLists(t)
	lists.Build(func(l *revocation.List) { t.Error(l.Err) })
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Address: address, Field: "revocation.listen", Lists: lists, Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	var all []net.Conn
	for len(all) < maxConnectionsFrom+10 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			if len(all) > 0 {
				t.Fatal(err)
			}
			continue // it does not listen yet
		}
		defer conn.Close()
		all = append(all, conn)
	}
	response, err := http.Get("http://" + address + "/" + id + ".crl")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("code %d", response.StatusCode)
	}
	if err := all[0].SetReadDeadline(time.Now().Add(readTimeout / 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := all[0].Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
		t.Errorf("the oldest connection is open: %v", err)
	}
	if _, err := io.WriteString(all[len(all)-1], "GET / HTTP/1.0\r\n\r\n"); err != nil {
		t.Errorf("the newest connection: %v", err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
