package pki

import (
	"bytes"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"strings"
	"testing"
	"time"
)

// tbsList is a TBSCertList, for content that a List cannot have.
type tbsList struct {
	Version            int
	Algorithm          pkix.AlgorithmIdentifier
	Issuer, ThisUpdate asn1.RawValue
	NextUpdate         asn1.RawValue    `asn1:"optional"`
	Entries            []tbsEntry       `asn1:"optional"`
	Extensions         []pkix.Extension `asn1:"optional,explicit,tag:0"`
	Another            asn1.RawValue    `asn1:"optional"`
}

type tbsEntry struct {
	Serial     *big.Int
	Time       asn1.RawValue
	Extensions []pkix.Extension `asn1:"optional"`
}

// lintedList returns a CA, and a draft that is fit for its key.
func lintedList(t testing.TB) (*ListAuthority, []byte) {
	t.Helper()
	key, err := GenerateKey(ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	root, err := NewRoot(UnrecordedSigning, "CA", key, DefaultRootLifetime, at)
	if err != nil {
		t.Fatal(err)
	}
	linted, err := root.Lists().Lint(List{Number: big.NewInt(8), ThisUpdate: at, NextUpdate: at.Add(time.Hour), Entries: []ListEntry{
		{Serial: []byte{1}, Time: at}, {Serial: []byte{2}, Time: at, Reason: ReasonSuperseded},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return root.Lists(), linted.TBS()
}

func TestLintOfEncodedLists(t *testing.T) {
	ca, good := lintedList(t)
	extension := func(id asn1.ObjectIdentifier, critical bool, value ...byte) pkix.Extension {
		return pkix.Extension{Id: id, Critical: critical, Value: value}
	}
	oid := func(last int) asn1.ObjectIdentifier { return asn1.ObjectIdentifier{2, 5, 29, last} }
	general := func(text string) asn1.RawValue {
		return asn1.RawValue{Tag: asn1.TagGeneralizedTime, Bytes: []byte(text)}
	}
	for _, tc := range []struct {
		reason string
		change func(*tbsList)
		want   string // "" if it may be signed
	}{
		{"good", func(*tbsList) {}, ""},
		{"L2: another issuer", func(l *tbsList) { l.Issuer.FullBytes = emptyName[:] }, "the list has other content"},
		{"L2: another key", func(l *tbsList) { l.Extensions[0].Value = []byte{0x30, 3, 0x80, 1, 1} }, "the list has other content"},
		{"L2: no key identifier", func(l *tbsList) { l.Extensions = l.Extensions[1:] }, "the list has other content"},
		{"L3", func(l *tbsList) { l.NextUpdate = asn1.RawValue{} }, "nextUpdate is missing"},
		{"L4", func(l *tbsList) { l.Extensions = l.Extensions[:1] }, "number is missing"},
		{"L5: negative", func(l *tbsList) { l.Entries[0].Serial = big.NewInt(-1) }, "serial number -1 must be positive"},
		{"L5: twice", func(l *tbsList) { l.Entries = append(l.Entries, l.Entries[0]) }, "serial number 01 is listed twice"},
		{"L6", func(l *tbsList) { l.Entries[1].Extensions[0].Value[2] = 8 }, "reason 8 is not supported"},
		{"L8: delta", func(l *tbsList) { l.Extensions = append(l.Extensions, extension(oid(27), true, 2, 1, 1)) }, "the list has other content"},
		{"L8: freshest CRL", func(l *tbsList) { l.Extensions = append(l.Extensions, extension(oid(46), false, 0x30, 0)) }, "the list has other content"},
		{"L8: distribution point", func(l *tbsList) { l.Extensions = append(l.Extensions, extension(oid(28), true, 0x30, 0)) }, "the list has other content"},
		{"L8: critical", func(l *tbsList) { l.Extensions[1].Critical = true }, "the list has other content"},
		{"L8: certificate issuer", func(l *tbsList) {
			l.Entries[0].Extensions = []pkix.Extension{extension(oid(29), true, 0x30, 0)}
		}, "serial number 1: the entry has other content"},
		{"L8: critical reason", func(l *tbsList) { l.Entries[1].Extensions[0].Critical = true }, "serial number 2: the entry has other content"},
		{"L11: no reason", func(l *tbsList) { l.Entries[1].Extensions[0].Value[2] = 0 }, "serial number 2: the entry has other content"},
		{"L11: empty extensions", func(l *tbsList) { l.Entries[0].Extensions = []pkix.Extension{} }, "serial number 1: the entry has other content"},
		{"L11: form of an entry's time", func(l *tbsList) { l.Entries[0].Time = general("20260301120000Z") }, "serial number 1: the entry has other content"},
		{"L11: form of a time", func(l *tbsList) { l.ThisUpdate = general("20260301120000Z") }, "the list has other content"},
		{"L11: number twice", func(l *tbsList) { l.Extensions = append(l.Extensions, l.Extensions[1]) }, "the list has other content"},
		{"L11: parameters", func(l *tbsList) { l.Algorithm.Parameters = asn1.NullRawValue }, "the list has other content"},
		{"L11: algorithm", func(l *tbsList) { l.Algorithm.Algorithm = asn1.ObjectIdentifier{1, 2} }, "the list has other content"},
		{"L11: entries that the parser skips", func(l *tbsList) { l.NextUpdate = asn1.NullRawValue }, "nextUpdate is missing"},
		{"L11: more", func(l *tbsList) { l.Another = asn1.NullRawValue }, "is malformed"},
		{"L11: version", func(l *tbsList) { l.Version = 0 }, "unsupported crl version"},
		{"L11: what is after the entries", func(l *tbsList) {
			l.Entries[0].Extensions = []pkix.Extension{extension(oid(21), false, 10, 1, 3), extension(oid(29), true, 10, 1, 3)}
		}, "serial number 1: the entry has other content"},
		{"L12", func(l *tbsList) { l.Entries = []tbsEntry{} }, "must not have an empty sequence"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			list, err := parse[tbsList](good)
			if err != nil {
				t.Fatal(err)
			}
			tc.change(&list)
			tbs, err := asn1.Marshal(list)
			if err != nil {
				t.Fatal(err)
			}
			_, err = ca.LintEncoded(tbs)
			if err == nil != (tc.want == "") || tc.want != "" && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// FuzzListEncoding: what the linter passes is what package x509 reads.
func FuzzListEncoding(f *testing.F) {
	ca, good := lintedList(f)
	f.Add(good)
	f.Fuzz(func(t *testing.T, tbs []byte) {
		linted, err := ca.LintEncoded(tbs)
		if err != nil {
			return
		}
		whole, err := linted.Content()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(whole.RawTBSRevocationList, tbs) {
			t.Errorf("%x is read as %x", tbs, whole.RawTBSRevocationList)
		}
	})
}
