package inventory

import (
	"bytes"
	"context"
	"crypto/x509"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/pki"
)

// Unrecorded returns which of some certificates have no record, without those whose records
// would be deleted at once. It reads each pack at most once.
func (x *Index) Unrecorded(ctx context.Context, certificates []*x509.Certificate) ([]*x509.Certificate, error) {
	if err := x.awaitRead(ctx); err != nil {
		return nil, err
	}
	of := map[int64]map[string]*x509.Certificate{} // by day and name
	for _, cert := range certificates {
		number := dayOf(cert.NotAfter)
		if number < dayOf(x.now().Add(-x.keep)) {
			continue
		}
		if of[number] == nil {
			of[number] = map[string]*x509.Certificate{}
		}
		of[number][pki.Fingerprint(cert)[:nameLength]] = cert
	}
	var missing []*x509.Certificate
	for number, named := range of {
		if err := removeRecorded(ctx, x, number, named); err != nil {
			return nil, err
		}
		for _, cert := range named {
			missing = append(missing, cert)
		}
	}
	return missing, nil
}

// removeRecorded removes the names of records of a day.
func removeRecorded(ctx context.Context, x *Index, number int64, named map[string]*x509.Certificate) error {
	packs, outside := x.on(number)
	for _, f := range outside {
		delete(named, f.record.Name)
	}
	for _, info := range packs {
		var candidates []string
		for name := range named {
			if info.filter.has(newTerm(inventory.NameOfRecord, name)) {
				candidates = append(candidates, name)
			}
		}
		if len(candidates) == 0 {
			continue
		}
		p, err := x.readPack(ctx, info)
		if err != nil {
			return err
		}
		for _, name := range candidates {
			if p.has(name) {
				delete(named, name)
			}
		}
	}
	return nil
}

// has reports whether a pack has a record, without decoding any: that takes milliseconds.
func (p *pack) has(name string) bool {
	begin, digest := []byte(`"metadata":{"name":"`+name+`"`), []byte(`"fingerprint":"`+name) // no value can have these quotes
	for _, data := range p.records {
		if bytes.Contains(data, begin) || bytes.Contains(data, digest) {
			return true
		}
	}
	return false
}

// IsNew is a condition for the transaction of a write: no such record exists outside packs.
func IsNew(write clientv3.Op) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(string(write.KeyBytes())), "=", 0)
}
