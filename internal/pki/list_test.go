package pki_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"math/big"
	mathrand "math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/pki"
)

// listCA returns a CA for lists, from 2020 to 2099; change may be nil.
func listCA(t testing.TB, key crypto.Signer, change func(*x509.Certificate)) *pki.ListAuthority {
	t.Helper()
	template := caTemplate("lists of \"Ä\"")
	template.NotBefore, template.NotAfter = date(2020, 1), date(2099, 12)
	template.SubjectKeyId = []byte("key identifier")
	if change != nil {
		change(template)
	}
	ca, err := pki.NewListAuthority(selfSigned(t, template, key), key)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func date(year int, month time.Month) time.Time {
	return time.Date(year, month, 1, 12, 34, 56, 0, time.UTC)
}

// goodList returns a list that tests change.
func goodList() pki.List {
	return pki.List{Number: big.NewInt(8), ThisUpdate: now, NextUpdate: now.Add(7 * day), Entries: []pki.ListEntry{
		{Serial: []byte{1}, Time: now.Add(-time.Hour)},
		{Serial: []byte{0, 0, 0x80, 2}, Time: now, Reason: pki.ReasonKeyCompromise},
	}}
}

func unrecordedList(context.Context, pki.SignedList) error { return nil }

func signList(t testing.TB, ca *pki.ListAuthority, list pki.List) []byte {
	t.Helper()
	linted, err := ca.Lint(list, nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := linted.Sign(t.Context(), rand.Reader, unrecordedList)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func parseList(t testing.TB, der []byte, by *pki.ListAuthority) *x509.RevocationList {
	t.Helper()
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		t.Fatal(err)
	}
	if err := list.CheckSignatureFrom(by.Certificate()); err != nil {
		t.Error(err)
	}
	return list
}

// randomList returns a list, and the same as the standard library takes it.
func randomList(random *mathrand.Rand) (pki.List, *x509.RevocationList) {
	moment := func(from, until time.Time) time.Time {
		return from.Add(time.Duration(random.Int64N(int64(until.Sub(from))))).In(time.FixedZone("", random.IntN(7200)))
	}
	this := moment(date(2020, 2), date(2090, 1))
	octets := make([]byte, 1+random.IntN(20))
	for i := range octets {
		octets[i] = byte(random.Uint32())
	}
	octets[0] &= 0x7f
	number := new(big.Int).SetBytes(append(octets, 1))
	number.Rsh(number, 8)
	number.SetBit(number, 0, 1)
	template := &x509.RevocationList{Number: number, ThisUpdate: this, NextUpdate: moment(this.Add(time.Second), date(2099, 1))}
	var entries []pki.ListEntry
	used := map[string]bool{}
	for range random.IntN(40) {
		serial := make([]byte, 1+random.IntN(20))
		for i := range serial {
			serial[i] = byte(random.Uint32())
		}
		value := new(big.Int).SetBytes(serial)
		if value.Sign() == 0 || used[value.String()] {
			continue
		}
		used[value.String()] = true
		reason := pki.Reasons()[random.IntN(len(pki.Reasons()))]
		at := moment(date(1990, 1), this)
		entries = append(entries, pki.ListEntry{Serial: serial, Time: at, Reason: reason})
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries, x509.RevocationListEntry{
			SerialNumber: value, RevocationTime: at, ReasonCode: int(reason),
		})
	}
	return pki.List{Number: number, ThisUpdate: this, NextUpdate: template.NextUpdate, Entries: entries}, template
}

func TestListsEqualThoseOfGo(t *testing.T) {
	random := mathrand.New(mathrand.NewPCG(1, 2))
	for kind, number := range map[pki.KeyType]int{pki.Ed25519: 1000, pki.RSA2048: 300, pki.RSA4096: 10, pki.ECDSAP256: 500, pki.ECDSAP384: 150, pki.ECDSAP521: 50} {
		key := newKey(t, kind)
		ca := listCA(t, key, nil)
		for i := range number {
			list, template := randomList(random)
			want, err := x509.CreateRevocationList(rand.Reader, template, ca.Certificate(), key)
			if err != nil {
				t.Fatal(err)
			}
			got := signList(t, ca, list)
			parsed, read := parseList(t, got, ca), parseList(t, want, ca)
			if !bytes.Equal(parsed.RawTBSRevocationList, read.RawTBSRevocationList) {
				t.Fatalf("%s, list %d: content differs from that of Go:\n%x\n%x", kind, i, parsed.RawTBSRevocationList, read.RawTBSRevocationList)
			}
			if !strings.HasPrefix(string(kind), "ecdsa") && !bytes.Equal(got, want) {
				t.Fatalf("%s, list %d: differs from that of Go:\n%x\n%x", kind, i, got, want)
			}
		}
	}
}

// TestListEncoding: servers that build a list from a stored signature need the same bytes
// from every version.
func TestListEncoding(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	list := goodList()
	list.NextUpdate = date(2050, 1)
	const want = "3081a9020101300506032b657030183116301406035504030c0d6c69737473206f662022c38422" + // v2, Ed25519, issuer
		"170d3236303330313132303030305a180f32303530303130313132333435365a" + // times
		"30383012020101170d3236303330313131303030305a" + // entries
		"30220203008002170d3236303330313132303030305a300c300a0603551d1504030a0101" +
		"a029302730190603551d2304123010800e6b6579206964656e746966696572300a0603551d140403020108" // key identifier, number
	linted, err := listCA(t, key, nil).Lint(list, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(linted.TBS()); got != want {
		t.Errorf("got %s", got)
	}
}

func TestListLint(t *testing.T) {
	entry := func(change func(*pki.ListEntry)) func(*pki.List) {
		return func(l *pki.List) {
			change(&l.Entries[1])
		}
	}
	for _, tc := range []struct {
		reason string
		ca     func(*x509.Certificate)
		change func(*pki.List)
		last   *big.Int
		want   string // "" if it is signed
	}{
		{reason: "good"},
		{reason: "greater than the last", last: big.NewInt(7)},
		{reason: "no entries", change: func(l *pki.List) { l.Entries = nil }},
		{reason: "CA without key usage", ca: func(c *x509.Certificate) { c.KeyUsage = 0 }},
		{reason: "longest number", change: func(l *pki.List) { l.Number = new(big.Int).Lsh(big.NewInt(1), 158) }},
		{reason: "longest serial number", change: entry(func(e *pki.ListEntry) { e.Serial = bytes.Repeat([]byte{0xff}, 20) })},
		{reason: "the CA's whole life", change: func(l *pki.List) {
			l.ThisUpdate, l.NextUpdate, l.Entries = date(2020, 1), date(2099, 12), nil
		}},

		{reason: "L1", ca: func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCertSign }, want: "lacks cRLSign"},
		{reason: "L3: ends at its beginning", change: func(l *pki.List) { l.NextUpdate = l.ThisUpdate.Add(time.Millisecond) }, want: "nextUpdate must be after thisUpdate"},
		{reason: "L3: no end", change: func(l *pki.List) { l.NextUpdate = time.Time{} }, want: "nextUpdate is missing"},
		{reason: "L3: before the CA", change: func(l *pki.List) { l.ThisUpdate, l.Entries = date(2020, 1).Add(-time.Second), nil }, want: "before the CA begins"},
		{reason: "L3: after the CA", change: func(l *pki.List) { l.NextUpdate = date(2099, 12).Add(time.Second) }, want: "after the CA ends"},
		{reason: "year 10000", change: func(l *pki.List) { l.NextUpdate = date(10000, 1) }, want: "cannot represent time"},
		{reason: "L4: no number", change: func(l *pki.List) { l.Number = nil }, want: "number is missing"},
		{reason: "L4: zero", change: func(l *pki.List) { l.Number = new(big.Int) }, want: "number must be positive"},
		{reason: "L4: negative", change: func(l *pki.List) { l.Number = big.NewInt(-1) }, want: "number must be positive"},
		{reason: "L4: too long", change: func(l *pki.List) { l.Number = new(big.Int).Lsh(big.NewInt(1), 159) }, want: "number must be positive and of at most 20 octets"},
		{reason: "L4: the last", last: big.NewInt(8), want: "must be greater than 8"},
		{reason: "L4: less than the last", last: big.NewInt(9), want: "must be greater than 9"},
		{reason: "L5: twice", change: entry(func(e *pki.ListEntry) { e.Serial = []byte{0, 1} }), want: "serial number 01 is listed twice"},
		{reason: "L5: zero", change: entry(func(e *pki.ListEntry) { e.Serial = []byte{0} }), want: "serial number 0 must be positive"},
		{reason: "L5: none", change: entry(func(e *pki.ListEntry) { e.Serial = nil }), want: "serial number 0 must be positive"},
		{reason: "L5: too long", change: entry(func(e *pki.ListEntry) { e.Serial = bytes.Repeat([]byte{1}, 21) }), want: "at most 20 octets"},
		{reason: "L5: much too long", change: entry(func(e *pki.ListEntry) { e.Serial = bytes.Repeat([]byte{1}, 300) }), want: "at most 20 octets"},
		{reason: "L6: hold", change: entry(func(e *pki.ListEntry) { e.Reason = 6 }), want: "reason 6 is not supported"},
		{reason: "L6: unknown", change: entry(func(e *pki.ListEntry) { e.Reason = 255 }), want: "is not supported"},
		{reason: "L7", change: entry(func(e *pki.ListEntry) { e.Time = now.Add(time.Second) }), want: "after thisUpdate"},
		{reason: "L7: no time", change: entry(func(e *pki.ListEntry) { e.Time = time.Time{} }), want: "time of the revocation is missing"},
		{reason: "entry in the year 10000", change: entry(func(e *pki.ListEntry) { e.Time = date(10000, 1) }), want: "the year 10000"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			list := goodList()
			if tc.change != nil {
				tc.change(&list)
			}
			ca := listCA(t, newKey(t, pki.Ed25519), tc.ca)
			linted, err := ca.Lint(list, tc.last)
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				der, err := linted.Sign(t.Context(), rand.Reader, unrecordedList)
				if err != nil {
					t.Fatal(err)
				}
				parseList(t, der, ca)
				return
			}
			var refused *pki.RefusedError
			if linted != nil || !errors.As(err, &refused) || len(refused.Problems) != 1 || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q only", err, tc.want)
			}
			if errors.Is(err, pki.ErrNoLists) != (tc.reason == "L1") {
				t.Errorf("ErrNoLists: %v", err)
			}
		})
	}
}

func TestAllProblemsOfAList(t *testing.T) {
	list := goodList()
	list.Number, list.NextUpdate = nil, now
	list.Entries = []pki.ListEntry{{Serial: []byte{0}, Time: now.Add(time.Hour), Reason: 6}}
	_, err := listCA(t, newKey(t, pki.Ed25519), nil).Lint(list, nil)
	var refused *pki.RefusedError
	if !errors.As(err, &refused) || len(refused.Problems) != 3 {
		t.Errorf("%v, want 3 problems", err)
	}
}

// TestListWithoutKeyID: such a CA's certificates name its key by the digest too.
func TestListWithoutKeyID(t *testing.T) {
	h := newHierarchy(t, nil)
	content := *h.certs[0]
	content.SubjectKeyId = nil // CreateCertificate always writes one
	ca, err := pki.NewListAuthority(&content, h.keys[0])
	if err != nil {
		t.Fatal(err)
	}
	want, err := pki.KeyID(h.keys[0].Public())
	if err != nil {
		t.Fatal(err)
	}
	if list := parseList(t, signList(t, ca, goodList()), ca); !bytes.Equal(list.AuthorityKeyId, want) {
		t.Errorf("authority key identifier is %x, want %x", list.AuthorityKeyId, want)
	}
}

func TestLongList(t *testing.T) {
	const length = 12_345
	list := func(change func(i int, e *pki.ListEntry)) pki.List {
		l := goodList()
		l.Entries = make([]pki.ListEntry, length)
		for i := range l.Entries {
			l.Entries[i] = pki.ListEntry{Serial: big.NewInt(int64(i + 1)).Bytes(), Time: now, Reason: pki.ReasonSuperseded}
			change(i, &l.Entries[i])
		}
		return l
	}
	ca := listCA(t, newKey(t, pki.Ed25519), nil)
	parsed := parseList(t, signList(t, ca, list(func(int, *pki.ListEntry) {})), ca)
	if n := len(parsed.RevokedCertificateEntries); n != length || parsed.RevokedCertificateEntries[n-1].SerialNumber.Int64() != length {
		t.Errorf("%d entries are listed", n)
	}
	last := func(change func(*pki.ListEntry)) func(int, *pki.ListEntry) {
		return func(i int, e *pki.ListEntry) {
			if i == length-1 {
				change(e)
			}
		}
	}
	for want, change := range map[string]func(*pki.ListEntry){
		"serial number 01 is listed twice": func(e *pki.ListEntry) { e.Serial = []byte{1} },
		"after thisUpdate":                 func(e *pki.ListEntry) { e.Time = now.Add(time.Second) },
	} {
		if _, err := ca.Lint(list(last(change)), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestListWithoutName(t *testing.T) {
	key := newKey(t, pki.ECDSAP256)
	template := caTemplate("")
	ca := selfSigned(t, template, key)
	authority, err := pki.NewListAuthority(ca, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Lint(goodList(), nil); !errors.Is(err, pki.ErrNoLists) {
		t.Errorf("%v, want ErrNoLists", err)
	}
}

func TestListAuthorityKey(t *testing.T) {
	key := newKey(t, pki.ECDSAP256)
	ca := selfSigned(t, caTemplate("CA"), key)
	leaf := caTemplate("leaf")
	leaf.IsCA, leaf.KeyUsage = false, x509.KeyUsageDigitalSignature
	for _, tc := range []struct {
		reason string
		cert   *x509.Certificate
		key    crypto.Signer
		want   string
	}{
		{"another key", ca, newKey(t, pki.ECDSAP256), "does not belong"},
		{"no CA", selfSigned(t, leaf, key), key, "is not a CA certificate"},
	} {
		if _, err := pki.NewListAuthority(tc.cert, tc.key); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.reason, err, tc.want)
		}
	}
}

// A list that another process has made is signed only if this one could have made it.
func TestLintEncoded(t *testing.T) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	ca := listCA(t, key, nil)
	other := listCA(t, key, func(c *x509.Certificate) { c.Subject.CommonName = "other" })
	list := goodList()
	linted, err := ca.Lint(list, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ca.LintEncoded(linted.TBS())
	if err != nil {
		t.Fatal(err)
	}
	content, err := again.Content()
	if err != nil || content.Number.Cmp(list.Number) != 0 || len(content.RevokedCertificateEntries) != 2 || !bytes.Equal(again.TBS(), linted.TBS()) {
		t.Errorf("read %+v (%v)", content, err)
	}
	der, err := again.Sign(t.Context(), rand.Reader, unrecordedList)
	if err != nil {
		t.Fatal(err)
	}
	if parsed, err := x509.ParseRevocationList(der); err != nil || parsed.CheckSignatureFrom(ca.Certificate()) != nil {
		t.Errorf("signed: %v", err)
	}
	tbs := linted.TBS()
	if _, err := other.LintEncoded(tbs); err == nil {
		t.Error("it was accepted for another CA")
	}
	if _, err := ca.LintEncoded(append(slices.Clone(tbs), 0)); err == nil {
		t.Error("trailing data was accepted")
	}
	for at := range tbs {
		if _, err := ca.LintEncoded(tbs[:at]); err == nil {
			t.Errorf("the first %d bytes were accepted", at)
		}
	}
}

// TestListAuthoritySignsNothingElse: the key of a former CA must not sign certificates.
func TestListAuthoritySignsNothingElse(t *testing.T) {
	for of, want := range map[reflect.Type][]string{
		reflect.TypeFor[*pki.ListAuthority](): {"Certificate", "Lint", "LintEncoded"},
		reflect.TypeFor[*pki.LintedList]():    {"Content", "Sign", "Signed", "TBS"},
	} {
		var got []string
		for i := range of.NumMethod() {
			got = append(got, of.Method(i).Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("methods of %v: %s", of, diff)
		}
		for i := range of.Elem().NumField() {
			if of.Elem().Field(i).IsExported() {
				t.Errorf("%v has a field that other packages can use", of)
			}
		}
	}
	if reflect.TypeFor[*pki.ListAuthority]().ConvertibleTo(reflect.TypeFor[*pki.Authority]()) {
		t.Error("can be converted to an Authority")
	}
}

func TestListsOfAuthority(t *testing.T) {
	root := newRoot(t)
	list := parseList(t, signList(t, root.Lists(), goodList()), root.Lists())
	if !bytes.Equal(list.RawIssuer, root.Certificate().RawSubject) || !bytes.Equal(list.AuthorityKeyId, root.Certificate().SubjectKeyId) {
		t.Error("the list is not of the CA")
	}
}

func TestOnlyLintedListsCanBeSigned(t *testing.T) {
	var forged pki.LintedList
	if der, err := forged.Sign(t.Context(), rand.Reader, unrecordedList); err == nil {
		t.Errorf("signed %x", der)
	}
	if der, err := forged.Signed(nil); err == nil || forged.TBS() != nil {
		t.Errorf("signed %x", der)
	}
}

func TestListIsRecorded(t *testing.T) {
	ca := listCA(t, newKey(t, pki.ECDSAP256), nil)
	linted, err := ca.Lint(goodList(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := linted.Sign(t.Context(), rand.Reader, nil); err == nil {
		t.Error("signed without a recorder")
	}
	var recorded pki.SignedList
	der, err := linted.Sign(t.Context(), rand.Reader, func(_ context.Context, list pki.SignedList) error {
		recorded = list
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if recorded.CA != ca.Certificate() || recorded.Number.Int64() != 8 || !recorded.ThisUpdate.Equal(now) ||
		!recorded.NextUpdate.Equal(now.Add(7*day)) || recorded.Entries != 2 || !bytes.Equal(recorded.DER, der) {
		t.Errorf("recorded %+v", recorded)
	}
	before := bytes.Clone(der)
	if _, err := linted.Sign(t.Context(), rand.Reader, unrecordedList); err == nil || !bytes.Equal(der, before) {
		t.Errorf("signed a second time: %v", err)
	}

	linted, err = ca.Lint(goodList(), nil)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	if der, err := linted.Sign(t.Context(), rand.Reader, func(context.Context, pki.SignedList) error { return full }); der != nil || !errors.Is(err, full) {
		t.Errorf("%v, want that it was not recorded", err)
	}
}

// TestListOfStoredSignature: another server has the content and the signature only.
func TestListOfStoredSignature(t *testing.T) {
	for _, kind := range []pki.KeyType{pki.ECDSAP256, pki.RSA2048, pki.Ed25519} {
		ca := listCA(t, newKey(t, kind), nil)
		lint := func(change func(*pki.List)) *pki.LintedList {
			t.Helper()
			list := goodList()
			change(&list)
			linted, err := ca.Lint(list, nil)
			if err != nil {
				t.Fatal(err)
			}
			return linted
		}
		same := func(l *pki.List) {
			l.ThisUpdate, l.NextUpdate = l.ThisUpdate.Add(time.Millisecond).Local(), l.NextUpdate.In(time.FixedZone("", 60))
		}
		first := lint(func(*pki.List) {})
		content := bytes.Clone(first.TBS())
		der, err := first.Sign(t.Context(), rand.Reader, unrecordedList)
		if err != nil {
			t.Fatal(err)
		}
		signature := parseList(t, der, ca).Signature
		second := lint(same)
		if !bytes.Equal(content, second.TBS()) || !bytes.Equal(content, first.TBS()) {
			t.Errorf("%s: the content differs", kind)
		}
		if _, err := second.Signed(append([]byte{0}, signature...)); err == nil {
			t.Errorf("%s: took a wrong signature", kind)
		}
		if again, err := second.Signed(signature); err != nil || !bytes.Equal(again, der) {
			t.Errorf("%s: %v, want the same list", kind, err)
		}
		if _, err := second.Sign(t.Context(), rand.Reader, unrecordedList); err == nil {
			t.Errorf("%s: signed a second time", kind)
		}
		if _, err := lint(func(l *pki.List) { l.Number = big.NewInt(9) }).Signed(signature); err == nil {
			t.Errorf("%s: took the signature of another list", kind)
		}
	}
}

// TestListWithoutKey: a server without the key can only join a list with its signature.
func TestListWithoutKey(t *testing.T) {
	ca := listCA(t, newKey(t, pki.ECDSAP256), nil)
	der := signList(t, ca, goodList())
	keyless, err := pki.NewListAuthority(ca.Certificate(), nil)
	if err != nil {
		t.Fatal(err)
	}
	linted, err := keyless.Lint(goodList(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := linted.Sign(t.Context(), rand.Reader, unrecordedList); err == nil || !strings.Contains(err.Error(), "is not here") {
		t.Errorf("signed without a key: %v", err)
	}
	if again, err := linted.Signed(parseList(t, der, ca).Signature); err != nil || !bytes.Equal(again, der) {
		t.Errorf("%v, want the same list", err)
	}
}

func TestListOfBrokenKey(t *testing.T) {
	key := newKey(t, pki.ECDSAP256)
	ca, err := pki.NewListAuthority(listCA(t, key, nil).Certificate(), brokenKey{key})
	if err != nil {
		t.Fatal(err)
	}
	linted, err := ca.Lint(goodList(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := linted.Sign(t.Context(), rand.Reader, unrecordedList); err == nil || !strings.Contains(err.Error(), "verifying fresh signature") {
		t.Errorf("%v, want that the signature is wrong", err)
	}
}

// BenchmarkList is a list of 500,000 entries.
func BenchmarkList(b *testing.B) {
	ca := listCA(b, newKey(b, pki.ECDSAP256), nil)
	random := mathrand.NewChaCha8([32]byte{})
	serials := make([][17]byte, 500_000)
	for i := range serials {
		serials[i][0] = 1
		_, _ = random.Read(serials[i][1:])
	}
	list := goodList()
	list.Entries = list.Entries[:0]
	for i := range serials {
		list.Entries = append(list.Entries, pki.ListEntry{Serial: serials[i][:], Time: now.Add(-time.Duration(i) * time.Second), Reason: pki.ReasonSuperseded})
	}
	b.ReportAllocs()
	for b.Loop() {
		b.ReportMetric(float64(len(signList(b, ca, list)))/1e6, "MB/list")
	}
}
