package publishlists

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	mathrand "math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// store is a store that several servers share.
type store struct {
	revision int64
	values   map[string][]byte
	at       map[string]int64
	mu       sync.Mutex // guards all in Put
	acts     []func(*revocation.Index)
	signed   map[string]map[int64][]byte // by the ID and the number
	t        *testing.T
}

func (s *store) count() (n int) {
	for _, lists := range s.signed {
		n += len(lists)
	}
	return n
}

func newStore(t *testing.T) *store {
	return &store{t: t, values: map[string][]byte{}, at: map[string]int64{}, signed: map[string]map[int64][]byte{}, revision: 1}
}

func (s *store) revoke(serial int64, ca *x509.Certificate, ends, at time.Time) {
	s.revision++
	act := revocation.Act{UID: types.UID(fmt.Sprint("act-", s.revision)), Revision: s.revision}
	s.acts = append(s.acts, func(index *revocation.Index) {
		index.Add(act, []revocation.Entry{{Authority: ca.SubjectKeyId, Serial: big.NewInt(serial).Bytes(), NotAfter: ends, Time: at}})
	})
}

// view is what one server knows of the store.
type view struct {
	*store
	index *revocation.Index
	*revocation.Lists
	to int64
	// broken makes Put fail after it has stored the list, lost before that.
	broken, lost bool
}

func newView(s *store) *view {
	index := revocation.NewIndex()
	return &view{store: s, index: index, Lists: revocation.NewLists(index)}
}

// follow learns of all changes.
func (v *view) follow() {
	for _, add := range v.acts {
		add(v.index)
	}
	v.to = v.revision
	for id, data := range v.values {
		v.Lists.Set(id, v.at[id], data, nil)
	}
	v.Lists.Build(func(list *revocation.List) { v.t.Errorf("building a list: %v", list.Err) })
}

func (v *view) AwaitRead(context.Context) error { return nil }
func (v *view) Revoked() *revocation.Index      { return v.index }
func (v *view) RevokedTo() int64                { return v.to }
func (v *view) Delete(_ context.Context, id string) error {
	delete(v.values, id)
	delete(v.at, id)
	v.Lists.Remove(id)
	return nil
}
func (v *view) Put(_ context.Context, id string, list *revocation.StoredList, der []byte, former int64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.lost:
		return errors.New("the server was killed")
	case v.at[id] != former:
		return errors.New("another server was first")
	}
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if before := v.signed[id][list.Number]; before != nil && der != nil && !bytes.Equal(before, der) {
		v.t.Errorf("number %d was signed twice", list.Number)
	}
	for number := range v.signed[id] {
		if der != nil && number >= list.Number {
			v.t.Errorf("number %d after %d", list.Number, number)
		}
	}
	if v.signed[id] == nil {
		v.signed[id] = map[int64][]byte{}
	}
	if der != nil {
		v.signed[id][list.Number] = der
	}
	v.revision++
	v.values[id], v.at[id] = data, v.revision
	if v.broken {
		return errors.New("the connection is lost")
	}
	v.Lists.Set(id, v.revision, data, der)
	return nil
}

// newCA returns a CA from noon on; usage is that of its key.
func newCA(t *testing.T, usage x509.KeyUsage, wrap func(crypto.Signer) crypto.Signer) *pki.Authority {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA"}, NotBefore: noon.Add(-time.Hour), NotAfter: noon.Add(365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: usage,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewAuthority([]*x509.Certificate{cert}, wrap(key))
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func same(key crypto.Signer) crypto.Signer { return key }

const both = x509.KeyUsageCertSign | x509.KeyUsageCRLSign

func newPublisher(t *testing.T, of *view, clock *testclock.FakeClock, cas ...CA) *publisher {
	t.Helper()
	metrics, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &publisher{
		Config:  Config{Store: of, Lists: of, CAs: func() ([]CA, bool) { return cas, true }, Settings: DefaultSettings(), Rand: rand.Reader, Clock: clock},
		metrics: metrics, states: map[string]*state{},
	}
}

// one returns the only list, which the server must have.
func one(t *testing.T, v *view) *revocation.List {
	t.Helper()
	all := v.Lists.All()
	if len(all) != 1 || all[0].Err != nil || all[0].Served != all[0].Last {
		t.Fatalf("the lists are %+v", all)
	}
	return all[0]
}

// 60 days without a revocation: a list a day, and there is always one that is valid.
func TestDaily(t *testing.T) {
	clock, s := testclock.NewFakeClock(noon), newStore(t)
	v := newView(s)
	p := newPublisher(t, v, clock, NewCA("a", newCA(t, both, same)))
	p.look(t.Context())()
	for hour := range 60 * 24 {
		clock.Step(time.Hour)
		p.look(t.Context())()
		list := one(t, v)
		if age := clock.Now().Sub(list.Last.ThisUpdate); age > 24*time.Hour+time.Hour+revocation.Backdate || !list.Usable(clock.Now()) {
			t.Fatalf("after %d hours the list is from %v", hour, list.Last.ThisUpdate)
		}
	}
	if n := s.count(); n < 60 || n > 62 {
		t.Errorf("%d lists in 60 days", n)
	}
	clock.Step(20 * 24 * time.Hour) // the server was off
	p.look(t.Context())()
	if list := one(t, v); !list.Usable(clock.Now()) || s.count() > 63 {
		t.Errorf("after a pause, the list ends at %v, and %d were signed", list.Last.NextUpdate, s.count())
	}
}

// The list of a former CA is signed until the last of its certificates has ended, and is then
// deleted. That of a CA that signs again stays.
func TestFormerUntil(t *testing.T) {
	clock, s := testclock.NewFakeClock(noon), newStore(t)
	v := newView(s)
	former, back := NewCA("a", newCA(t, both, same)), NewCA("a", newCA(t, both, same))
	p := newPublisher(t, v, clock, former, back)
	p.look(t.Context())()
	former.Ends, back.Ends = noon.Add(48*time.Hour), noon.Add(48*time.Hour)
	cas := []CA{former, back}
	p.CAs = func() ([]CA, bool) { return cas, true }
	p.look(t.Context())()
	s.revoke(1, former.Lists.Certificate(), noon.Add(24*time.Hour), noon)
	v.follow()
	clock.Step(47 * time.Hour)
	p.look(t.Context())()
	id := revocation.ListID(former.Lists.Certificate())
	if list := v.Get(id); list == nil || list.Last.Entries != 1 || !list.Usable(clock.Now()) || !list.Last.Ends.Equal(former.Ends) {
		t.Errorf("before the end, the list is %+v", list)
	}
	cas[1].Ends = time.Time{}
	p.look(t.Context())()
	clock.Step(time.Hour)
	for range 3 { // it is not signed again
		p.look(t.Context())()
		clock.Step(time.Second)
	}
	if all := v.Lists.All(); len(all) != 1 || all[0].ID != revocation.ListID(back.Lists.Certificate()) || !all[0].Last.Ends.IsZero() {
		t.Errorf("after the end, the lists are %+v", all)
	}
}

// When a CA was replaced, the key that is still in memory signs a final list, which is valid as
// long as the CA. Later revocations are on no list, until the CA comes back.
func TestFinal(t *testing.T) {
	clock, s := testclock.NewFakeClock(noon), newStore(t)
	v := newView(s)
	ca, next := NewCA("a", newCA(t, both, same)), NewCA("a", newCA(t, both, same))
	cert := ca.Lists.Certificate()
	id := revocation.ListID(cert)
	p := newPublisher(t, v, clock)
	cas, complete := []CA{ca}, true
	p.CAs = func() ([]CA, bool) { return cas, complete }
	look := func(step time.Duration) *revocation.StoredList {
		t.Helper()
		clock.Step(step)
		v.follow()
		p.look(t.Context())()
		return v.Get(id).Last
	}
	look(0)
	cas = []CA{next}
	complete = false // Signers are being opened
	look(time.Second)
	look(2 * goneAfter)
	complete = true
	look(time.Second)
	if list := look(goneAfter / 2); list.NextUpdate.Equal(cert.NotAfter) {
		t.Error("the list is final at once")
	}
	s.revoke(1, cert, noon.Add(24*time.Hour), clock.Now())
	final := look(goneAfter)
	if !final.NextUpdate.Equal(cert.NotAfter) || final.Entries != 1 {
		t.Errorf("the final list ends on %v, with %d entries", final.NextUpdate, final.Entries)
	}
	look(time.Second)
	s.revoke(2, cert, noon.Add(24*time.Hour), clock.Now())
	if list := look(time.Hour); list.Number != final.Number {
		t.Error("another list was signed after the final one")
	}
	if ca, late := p.lists(cert.SubjectKeyId, v.to); late != nil || !strings.Contains(ca, "its key is not on this server") {
		t.Errorf("a later revocation: %q, %v", ca, late)
	}
	cas = []CA{next, ca}
	if list := look(time.Hour); list.Entries != 2 || list.NextUpdate.Equal(cert.NotAfter) {
		t.Errorf("when the CA is back, its list has %d entries and ends on %v", list.Entries, list.NextUpdate)
	}
}

// A process that ends signs the final list of a CA that was replaced a moment ago, and of no
// other; if the CA comes back, its lists are as before.
func TestFinalAtEnd(t *testing.T) {
	clock, s := testclock.NewFakeClock(noon), newStore(t)
	v := newView(s)
	replaced, stays := NewCA("a", newCA(t, both, same)), NewCA("b", newCA(t, both, same))
	p := newPublisher(t, v, clock)
	cas := []CA{replaced, stays}
	p.CAs = func() ([]CA, bool) { return cas, true }
	look := func() {
		t.Helper()
		clock.Step(time.Second)
		v.follow()
		p.look(t.Context())()
	}
	isFinal := func(ca CA) bool {
		cert := ca.Lists.Certificate()
		return v.Get(revocation.ListID(cert)).Last.NextUpdate.Equal(cert.NotAfter)
	}
	look()
	cas = cas[1:]
	look()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	p.finishAtEnd(ended)
	if !isFinal(replaced) || isFinal(stays) {
		t.Errorf("the list of the replaced CA is final: %t, that of the other: %t", isFinal(replaced), isFinal(stays))
	}
	cas = []CA{replaced, stays}
	look()
	look()
	if isFinal(replaced) {
		t.Error("the CA is back, and its list is the final one")
	}
}

func TestClocks(t *testing.T) {
	clock, s := testclock.NewFakeClock(noon), newStore(t)
	v := newView(s)
	ca := newCA(t, both, same)
	p := newPublisher(t, v, clock, NewCA("a", ca))
	for n, now := range []time.Time{noon, noon.Add(100 * 24 * time.Hour), noon, noon.Add(-30 * time.Minute), noon.Add(time.Second)} {
		clock.SetTime(now)
		s.revoke(int64(100+n), ca.Certificate(), now.Add(200*24*time.Hour), now)
		v.follow()
		clock.Step(time.Second)
		p.look(t.Context())() // Put checks that numbers grow
		list := one(t, v)
		if !list.Usable(clock.Now()) || list.Last.ThisUpdate.After(clock.Now()) || list.Last.Entries != n+1 {
			t.Errorf("at %v the list is from %v, with %d entries", now, list.Last.ThisUpdate, list.Last.Entries)
		}
	}
}

// A list from a clock that was ahead is replaced at once when the clock is right, by one with a
// greater number.
func TestClockWasAhead(t *testing.T) {
	clock, s := testclock.NewFakeClock(noon.Add(300*24*time.Hour)), newStore(t)
	v := newView(s)
	p := newPublisher(t, v, clock, NewCA("a", newCA(t, both, same)))
	p.look(t.Context())()
	ahead := one(t, v).Last.Number
	clock.SetTime(noon)
	p.look(t.Context())()
	if list := one(t, v); list.Last.ThisUpdate.After(noon) || list.Last.Number <= ahead {
		t.Errorf("number %d from %v", list.Last.Number, list.Last.ThisUpdate)
	}
}

// An entry is on a regular list after the end of its certificate, then leaves.
func TestEnded(t *testing.T) {
	clock, s := testclock.NewFakeClock(noon), newStore(t)
	v := newView(s)
	ca := newCA(t, both, same)
	p := newPublisher(t, v, clock, NewCA("a", ca))
	s.revoke(7, ca.Certificate(), noon.Add(time.Hour), noon)
	v.follow()
	var after int
	for range 5 {
		clock.Step(24 * time.Hour)
		p.look(t.Context())()
		if list := one(t, v); list.Last.Entries > 0 {
			after++
		}
	}
	if after < 2 || after > 3 {
		t.Errorf("listed on %d lists after its end", after)
	}
}

// Two servers that both believe to have the lease never sign the same number, and both serve
// the same bytes. So does one whose write was stored without its knowledge.
func TestTwoServers(t *testing.T) {
	clock, s := testclock.NewFakeClock(noon), newStore(t)
	a, b := newView(s), newView(s)
	ca := newCA(t, both, same)
	one1, two := newPublisher(t, a, clock, NewCA("a", ca)), newPublisher(t, b, clock, NewCA("a", ca))
	for n := range 20 {
		s.revoke(int64(n+1), ca.Certificate(), noon.Add(10*24*time.Hour), clock.Now())
		a.follow()
		b.follow()
		clock.Step(10 * time.Minute)
		a.broken = n%4 == 3
		one1.look(t.Context())()
		two.look(t.Context())() // knows nothing of the first one's list yet
		a.follow()
		b.follow()
		mine, others := one(t, a), one(t, b)
		if !bytes.Equal(mine.DER, others.DER) || mine.Last.Entries != n+1 {
			t.Fatalf("after %d revocations, the servers have %d and %d entries", n+1, mine.Last.Entries, others.Last.Entries)
		}
	}
}

// Numbers grow over a thousand revocations, whatever happens to the two servers: they are
// killed before and after they store a list, take turns, know nothing of each other for a while,
// and their clock jumps. Put checks that no number is there twice.
func TestNumbersGrow(t *testing.T) {
	type server struct {
		*view
		publisher *publisher
	}
	clock, s, ca := testclock.NewFakeClock(noon), newStore(t), newCA(t, both, same)
	boot := func() server {
		v := newView(s)
		return server{v, newPublisher(t, v, clock, NewCA("a", ca))}
	}
	const revocations = 1000
	servers, random := []server{boot(), boot()}, mathrand.New(mathrand.NewPCG(40, revocations))
	sometimes := func(percent int) bool { return random.IntN(100) < percent }
	for n := range revocations {
		s.revoke(int64(n+1), ca.Certificate(), noon.Add(300*24*time.Hour), clock.Now())
		who := &servers[random.IntN(len(servers))]
		if who.lost || who.broken || sometimes(2) {
			*who = boot()
		}
		if sometimes(80) {
			who.follow()
		}
		if clock.Step(10 * time.Second); sometimes(10) {
			clock.SetTime(noon.Add(time.Duration(random.IntN(100*24*60)) * time.Minute))
		}
		who.lost, who.broken = sometimes(5), sometimes(5)
		who.publisher.look(t.Context())()
	}
	last := boot()
	last.follow()
	clock.SetTime(noon)
	last.publisher.look(t.Context())()
	list := one(t, last.view)
	if signed := s.count(); signed < revocations/2 || list.Last.Entries != revocations || list.Last.Number != slices.Max(slices.Collect(maps.Keys(s.signed[list.ID]))) {
		t.Errorf("%d lists are signed, the last one is %+v", signed, list.Last)
	}
}

// failing is a key that fails while it is away.
type failing struct {
	crypto.Signer
	away *bool
}

func (f failing) Sign(rand io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	if *f.away {
		return nil, errors.New("the token is away")
	}
	return f.Signer.Sign(rand, digest, opts)
}

// While a key is away, the lists of other CAs are signed, and the former list stays.
func TestKeyAway(t *testing.T) {
	clock, s, away := testclock.NewFakeClock(noon), newStore(t), false
	v := newView(s)
	gone := newCA(t, both, func(key crypto.Signer) crypto.Signer { return failing{key, &away} })
	unable := newCA(t, x509.KeyUsageCertSign, same)
	p := newPublisher(t, v, clock, NewCA("gone", gone), NewCA("unable", unable))
	p.look(t.Context())()
	former := one(t, v)
	away = true
	for n, ca := range []*pki.Authority{gone, unable} {
		s.revoke(int64(n+1), ca.Certificate(), noon.Add(24*time.Hour), noon)
	}
	v.follow()
	for range 30 {
		clock.Step(10 * time.Second)
		p.look(t.Context())()
	}
	if list := one(t, v); list != former {
		t.Errorf("the list is %+v", list)
	}
	if failures := p.states[revocation.ListID(gone.Certificate())].failures; failures < 4 || failures > 8 {
		t.Errorf("%d attempts in five minutes", failures)
	}
	checkListed(t, p, v, "act-2", "NotListed", "the token is away")
	away = false
	clock.Step(10 * time.Minute)
	p.look(t.Context())()
	if list := one(t, v); list.Last.Entries != 1 {
		t.Errorf("the list has %d entries", list.Last.Entries)
	}
}

func checkListed(t *testing.T, p *publisher, v *view, _ string, reason, text string) {
	t.Helper()
	for uid := v.revision; uid > 0; uid-- {
		verdict, ok := p.listed(types.UID(fmt.Sprint("act-", uid)))
		if ok && verdict.Reason == reason && strings.Contains(verdict.Message, text) {
			return
		}
	}
	t.Errorf("no act is %s: %s", reason, text)
}

// hanging is a key that does not answer.
type hanging struct {
	crypto.Signer
	ask <-chan struct{}
}

func (h hanging) Sign(rand io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	<-h.ask
	return h.Signer.Sign(rand, digest, opts)
}

// A key that does not answer keeps no other CA from signing, and is asked once.
func TestKeyHangs(t *testing.T) {
	clock, s, ask := testclock.NewFakeClock(noon), newStore(t), make(chan struct{})
	v := newView(s)
	hangs := newCA(t, both, func(key crypto.Signer) crypto.Signer { return hanging{key, ask} })
	quick := newCA(t, both, same)
	p := newPublisher(t, v, clock, NewCA("hangs", hangs), NewCA("quick", quick))
	first := p.look(t.Context())
	for v.Get(revocation.ListID(quick.Certificate())) == nil {
		runtime.Gosched()
	}
	clock.Step(time.Minute)
	p.look(t.Context())()
	if list := v.Get(revocation.ListID(hangs.Certificate())); list != nil {
		t.Errorf("the list is %+v", list)
	}
	close(ask)
	first()
	if list := v.Get(revocation.ListID(hangs.Certificate())); list == nil {
		t.Error("there is no list")
	}
}

// A server that would build other bytes serves the former list, and the leader signs again.
func TestDiffers(t *testing.T) {
	clock, s := testclock.NewFakeClock(noon), newStore(t)
	a := newView(s)
	ca := newCA(t, both, same)
	p := newPublisher(t, a, clock, NewCA("a", ca))
	p.look(t.Context())()
	s.revoke(1, ca.Certificate(), noon.Add(24*time.Hour), noon)
	a.follow()
	clock.Step(10 * time.Second)
	p.look(t.Context())()
	b := newView(s)
	s.acts = nil // such as a store that was restored in another order
	for id, data := range s.values {
		b.Lists.Set(id, s.at[id], data, nil)
	}
	reported := 0
	b.Lists.Build(func(*revocation.List) { reported++ })
	if list := b.Lists.All()[0]; list.Err == nil || list.DER != nil || reported != 1 {
		t.Errorf("the list is %+v, reported %d times", list, reported)
	}
	clock.Step(10 * time.Second)
	newPublisher(t, b, clock, NewCA("a", ca)).look(t.Context())()
	if list := one(t, b); list.Last.Entries != 0 {
		t.Errorf("the new list is %+v", list.Last)
	}
}
