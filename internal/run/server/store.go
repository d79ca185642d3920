package server

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/apiserver"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/store/datadir"
	"github.com/certplane/certplane/internal/store/etcd"
	"github.com/certplane/certplane/internal/store/storerecord"
	"github.com/certplane/certplane/internal/store/storespace"
	"github.com/certplane/certplane/internal/tenant"
)

// store is the etcd that holds the objects, inside this process or external.
type store struct {
	backend apiserver.Storage
	// embedded is nil when the etcd is an external one.
	embedded *etcd.Server
	// client is for keys that are not objects of the API.
	client *clientv3.Client
	// claimed means that the store records the keys that it belongs to.
	claimed bool
	// unwatch ends the watch over the store's space, and the inventory. It is nil if none
	// runs.
	unwatch func()
}

// nodesPercent is the share of the quota that all nodes together may use, in percent, if
// tenants are limited: the holder of a bootstrap token can create any number of nodes.
const nodesPercent = 50

// remoteTimeout is how long an external etcd may take to answer at start.
const remoteTimeout = 10 * time.Second

// startStore starts the store and returns when it answers.
func startStore(ctx context.Context, dir datadir.Dir, whole Config) (*store, error) {
	cfg := whole.Etcd
	backend := apiserver.Storage{
		Servers:  cfg.Servers,
		Prefix:   cfg.Prefix,
		CAFile:   cfg.CAFile,
		CertFile: cfg.CertFile,
		KeyFile:  cfg.KeyFile,
		Shared:   len(cfg.Servers) > 0,
	}
	if len(cfg.Servers) > 0 {
		var s *store
		err := patiently(ctx, "etcd at "+strings.Join(cfg.Servers, ", "), func(ctx context.Context) (err error) {
			if err = checkRemote(ctx, cfg); err == nil {
				s, err = startRemote(ctx, cfg, whole.Inventory, backend)
			}
			return err
		})
		return s, err
	}
	said := worker.Waiting{What: "the embedded etcd"}
	defer alongside(ctx, func(ctx context.Context) {
		for worker.Sleep(ctx, time.Second) {
			said.Say(ctx, nil, time.Second)
		}
	})()
	embedded, err := etcd.Start(ctx, etcd.Config{Dir: dir.Etcd(), Quota: cfg.quota()})
	if err != nil {
		return nil, storeError(err)
	}
	backend.Servers, backend.Connect, backend.Read = []string{embedded.Endpoint()}, embedded.Connect, embedded.ReadKey
	s := &store{backend: backend, embedded: embedded, client: embedded.Connect()}
	return s.withSpace(ctx, cfg, whole.Inventory, embedded, cfg.quota())
}

// startRemote connects to an external etcd, which must answer.
func startRemote(ctx context.Context, cfg EtcdConfig, records InventoryConfig, backend apiserver.Storage) (*store, error) {
	client, err := cfg.Remote().Connect()
	if err != nil {
		return nil, err
	}
	s, remote := &store{backend: backend, client: client}, cfg.Remote().Store(client)
	reading, err := remote.Read(ctx)
	if err != nil {
		s.stop()
		return nil, err
	}
	return s.withSpace(ctx, cfg, records, remote, storespace.QuotaWithin(cfg.quota(), reading.Limit))
}

// withSpace makes the store writable, and watches its space until the store
// stops. A store that cannot be used is stopped.
func (s *store) withSpace(ctx context.Context, cfg EtcdConfig, records InventoryConfig, of storespace.Store, quota int64) (*store, error) {
	space, err := storespace.New(storespace.Config{
		Store: of, KV: s.client, Prefix: cfg.Prefix, Owner: apiserver.Owners(cfg.Prefix),
		Quota: quota, PercentPerTenant: cfg.MaxPercentPerTenant, PercentPerClass: map[string]int{tenant.ClassNode: nodesPercent}, Metrics: legacyregistry.Registerer(),
	})
	if err == nil {
		err = space.Recover(ctx)
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	s.backend.Space = space
	if s.backend.Records, err = s.newRecords(records.Keep.Duration); err != nil {
		s.stop()
		return nil, err
	}
	unwatch, endRecords := alongside(context.Background(), space.Run), alongside(context.Background(), s.backend.Records.Run)
	s.unwatch = func() {
		endRecords()
		unwatch()
	}
	return s, nil
}

// longestRecords is how long the inventory has certificates at most, without the time after
// their end: requesters choose when certificates end.
const longestRecords = 10 * 366 * 24 * time.Hour

// newRecords returns the inventory of the store, which keeps records for some time after the
// end of their certificates.
func (s *store) newRecords(keep time.Duration) (*inventory.Inventory, error) {
	return inventory.New(inventory.Config{
		Store: s.client, Prefix: s.backend.Prefix, Keep: keep, Longest: longestRecords + keep, Now: time.Now, Metrics: legacyregistry.Registerer(),
		Get: func(ctx context.Context, key string) (*mvccpb.KeyValue, error) { return s.get(ctx, key) },
	})
}

// recordOwn makes the inventory record a certificate that the server has made for itself. It
// does nothing until the server has claimed the store, because a store with contents may
// belong to another server; recordHeld records the certificate later.
func (s *store) recordOwn(ctx context.Context, cert *x509.Certificate, why pki.Purpose) error {
	if !s.claimed {
		return nil
	}
	return s.writeOwn(ctx, ownCertificate{cert, why})
}

// recordHeld makes the inventory record the server's certificates that have no record: those
// made before the store was claimed, in an interrupted start, or by a version that did not
// record them. If the inventory cannot be read, a later start records them.
func (s *store) recordHeld(ctx context.Context, held []ownCertificate) error {
	s.claimed = true
	reading, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var missing []ownCertificate
	for _, own := range held {
		known, err := s.backend.Records.Has(reading, own.cert)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Cannot find out whether the server's own certificates are recorded")
			return ctx.Err()
		}
		if !known && !slices.ContainsFunc(missing, func(m ownCertificate) bool { return m.cert.Equal(own.cert) }) {
			missing = append(missing, own)
		}
	}
	return s.writeOwn(ctx, missing...)
}

func (s *store) writeOwn(ctx context.Context, certificates ...ownCertificate) error {
	if len(certificates) == 0 {
		return nil
	}
	ops, now := make([]clientv3.Op, len(certificates)), metav1.NewTime(time.Now().UTC().Truncate(time.Second))
	for i, own := range certificates {
		var err error
		if ops[i], err = s.backend.Records.Write(inventory.OwnRecord(own.cert, own.why, now)); err != nil {
			return err
		}
	}
	written, err := s.client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return fmt.Errorf("recording the server's own certificates: %w", err)
	}
	s.backend.Records.Wrote(written.Header.Revision)
	return nil
}

// Remote returns the external etcd of Servers.
func (c EtcdConfig) Remote() etcd.Remote {
	return etcd.Remote{Servers: c.Servers, CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile}
}

// records is the place of the store's record.
func (s *store) records() storerecord.Store {
	return storerecord.Store{KV: s.client, Prefix: s.backend.Prefix}
}

// checkRemote returns an error for a wrong address or certificate at once;
// without it the server would never get ready.
func checkRemote(ctx context.Context, cfg EtcdConfig) error {
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	if err := cfg.Remote().Check(ctx); err != nil {
		return fmt.Errorf("%w; check etcd.servers and its certificate files (--etcd-servers, --etcd-cafile, --etcd-certfile, --etcd-keyfile)", err)
	}
	return nil
}

// failed delivers the error after which the store cannot continue. An external
// store can always come back.
func (s *store) failed() <-chan error {
	if s.embedded == nil {
		return nil
	}
	return s.embedded.Failed()
}

// storeError adds the next step for the operator. Acknowledged writes are already on disk.
func storeError(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("storing objects: %w; free space on the disk of the data directory and start again, nothing acknowledged is lost", err)
	}
	return fmt.Errorf("storing objects: %w", err)
}

func (s *store) stop() {
	switch {
	case s.unwatch == nil:
	case s.embedded != nil && s.embedded.HasFailed():
		go s.unwatch() // a store that has failed may never answer the watch
	default:
		s.unwatch()
	}
	s.client.Close()
	if s.embedded != nil {
		s.embedded.Stop()
	}
}

const (
	defaultQuotaMiB = etcd.DefaultQuota >> 20
	minQuotaMiB     = 32
)

func (c EtcdConfig) validateSpace() error {
	if c.QuotaMiB != 0 && c.QuotaMiB < minQuotaMiB || c.QuotaMiB > math.MaxInt32 {
		return fmt.Errorf("etcd.quotaMiB: %d is out of range: must be from %d to %d, or 0 for the default", c.QuotaMiB, minQuotaMiB, math.MaxInt32)
	}
	if c.MaxPercentPerTenant < 0 || c.MaxPercentPerTenant > 100 {
		return fmt.Errorf("etcd.maxPercentPerTenant: %d is not a percentage; 0 means no bound", c.MaxPercentPerTenant)
	}
	return nil
}

func (c EtcdConfig) quota() int64 { return int64(cmp.Or(c.QuotaMiB, defaultQuotaMiB)) << 20 }
