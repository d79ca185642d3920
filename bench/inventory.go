package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	mathrand "math/rand/v2"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/store/etcd"
	"github.com/certplane/certplane/internal/store/storespace"
)

// inventoryLoad is how many records there are, and how often each search is made.
type inventoryLoad struct{ records, searches int }

// inventoryResult is the cost of the records, and how fast they are found. Memory is
// measured at rest after a start; Before is without records.
type inventoryResult struct {
	Records int        `json:"records"`
	DiskMB  float64    `json:"diskMB"`
	Before  restMemory `json:"before"`
	After   restMemory `json:"after"`
	// StartSeconds is until the server was ready.
	StartSeconds float64        `json:"startSeconds"`
	Searches     []searchResult `json:"searches"`
}

// searchResult describes searches of one kind, all of which find something.
type searchResult struct {
	By              string  `json:"by"`
	Calls           int     `json:"calls"`
	Errors          int     `json:"errors"`
	P50Milliseconds float64 `json:"p50Milliseconds"`
	P99Milliseconds float64 `json:"p99Milliseconds"`
}

// recordsPerWrite is how many records are written at once.
const recordsPerWrite = 100

// measureInventory fills the store of a certplane while it does not run.
func measureInventory(ctx context.Context, s *system, opts options, to *results) error {
	r := &inventoryResult{Records: opts.inventory.records}
	var err error
	if r.Before, err = restAfterRestart(ctx, s, opts); err != nil {
		return err
	}
	log.Printf("recording %d certificates", r.Records)
	records := newRecords(r.Records)
	err = s.again(ctx, opts, func(p *process) error {
		err := p.stop()
		if err == nil {
			r.DiskMB, err = records.fill(ctx, filepath.Join(s.dir, "data", "etcd"))
		}
		return err
	})
	if err != nil {
		return err
	}
	r.StartSeconds = s.startup.Seconds()
	if r.After, err = atRest(ctx, s, opts.settle); err != nil {
		return err
	}
	r.Searches, err = records.search(ctx, s.admin, opts.inventory.searches)
	to.Inventory = r
	return err
}

// records makes records of certificates of hosts that renew: each has some certificates,
// with 90 days each.
type records struct {
	count int
	begin time.Time
	// signer is the signer of every second record, and authority the key identifier of the CA
	// of all of them, in hexadecimal.
	signer, authority string
}

const certificatesPerHost = 4

func newRecords(count int) records {
	return records{count, time.Now().Truncate(time.Second), hostSigner, "3283d3051c3fef894f2cac78638813a9f1e953ec"}
}

const hostSigner = "example.com/hosts"

func (r records) host(i int) string { return fmt.Sprintf("host-%d.example.com", i/certificatesPerHost) }

func (r records) requester(i int) string {
	return fmt.Sprintf("system:serviceaccount:team-%d:host-%d", i%100, i/certificatesPerHost)
}

func (r records) serial(i int) string { return fmt.Sprintf("%x", 1<<40+i) }

// record returns the i-th record: certificates end in the order in which they were
// issued.
func (r records) record(i int) *inventoryv1alpha1.IssuedCertificate {
	unknown := make([]byte, 104)
	rand.Read(unknown) // never fails

	// Divided first: i times 90 days overflows.
	apart := 90 * 24 * time.Hour / time.Duration(r.count)
	end := r.begin.Add(time.Hour + time.Duration(i)*apart)
	signer := hostSigner
	if i%2 == 1 {
		signer = r.signer
	}
	record := &inventoryv1alpha1.IssuedCertificate{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(end.AddDate(0, 0, -90))},
		SignerName: signer,
		Certificate: inventoryv1alpha1.CertificateFacts{
			SerialNumber: r.serial(i), Fingerprint: hex.EncodeToString(unknown[:32]),
			KeyFingerprint: hex.EncodeToString(unknown[56:88]), Twin: hex.EncodeToString(unknown[88:]), Issuer: "CN=hosts CA", AuthorityKeyID: r.authority,
			Subject: "CN=" + r.host(i), CommonName: r.host(i), DNSNames: []string{r.host(i), "www." + r.host(i)}, KeyType: "ECDSA P-256", SignatureAlgorithm: "ECDSA-SHA256",
			Usages: []string{"digital signature", "server auth"}, NotBefore: metav1.NewTime(end.AddDate(0, 0, -90)), NotAfter: metav1.NewTime(end),
		},
		Request: inventoryv1alpha1.RequestFacts{
			APIGroup: "certificates.k8s.io", Kind: "CertificateSigningRequest", Name: "host-" + hex.EncodeToString(unknown[32:40]),
			UID: hex.EncodeToString(unknown[40:56]), Requester: r.requester(i),
		},
		Approval: &inventoryv1alpha1.ApprovalFacts{
			Approvers: []string{"system:serviceaccount:kube-system:certificate-policies"}, Reason: "PolicyApproved", Message: `Approved by CertificatePolicy "hosts" (generation 1)`,
			Policies: []inventoryv1alpha1.PolicyFacts{{Name: "hosts", Generation: 1, Digest: "sha256:6d1f0f9a3b8f0a53b7d2a2c1b0a9f8e7d6c5b4a39281706f5e4d3c2b1a0f9e8d"}},
		},
	}
	inventory.Complete(record)
	return record
}

// fill writes the records into the store of a server that does not run, until they are
// packed, and returns how large its file is then.
func (r records) fill(ctx context.Context, dir string) (diskMB float64, err error) {
	store, err := etcd.Start(ctx, etcd.Config{Dir: dir})
	if err != nil {
		return 0, err
	}
	defer store.Stop()
	empty, err := store.Read(ctx)
	if err != nil {
		return 0, err
	}
	client := store.Connect()
	defer client.Close()
	to, err := inventory.New(inventory.Config{Store: client, Prefix: "/registry", Keep: time.Hour, Now: time.Now, Get: store.Get})
	if err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		to.Run(running)
	}()
	defer func() {
		stop()
		<-ended
	}()
	for i := 0; i < r.count; i += recordsPerWrite {
		var ops []clientv3.Op
		for n := i; n < min(r.count, i+recordsPerWrite); n++ {
			op, err := to.Write(r.record(n))
			if err != nil {
				return 0, err
			}
			ops = append(ops, op)
		}
		written, err := client.Txn(ctx).Then(ops...).Commit()
		if err != nil {
			return 0, err
		}
		to.Wrote(written.Header.Revision)
		if i%(100*recordsPerWrite) == 0 { // otherwise packing does not keep up
			if _, err := to.Find(ctx, &inventory.Query{Limit: 1}); err != nil {
				return 0, err
			}
		}
	}
	if err := to.AwaitPacked(ctx); err != nil {
		return 0, err
	}
	full, err := reclaimed(ctx, store)
	return float64(full.Size-empty.Size) / 1e6, err
}

// reclaimed reads how full a store is without what it can reuse.
func reclaimed(ctx context.Context, store storespace.Store) (storespace.Reading, error) {
	full, err := store.Read(ctx)
	if err == nil {
		err = store.Compact(ctx, full.Revision)
	}
	if err == nil {
		err = store.Reclaim(ctx)
	}
	if err != nil {
		return full, err
	}
	return store.Read(ctx)
}

// search makes each search some times, one after the other.
func (r records) search(ctx context.Context, admin *rest.Config, calls int) ([]searchResult, error) {
	cfg := rest.CopyConfig(admin)
	cfg.QPS = -1 // no limit
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	all := client.Resource(inventoryv1alpha1.GroupVersion.WithResource("issuedcertificates"))
	var found []searchResult
	for _, by := range []struct {
		name    string
		options func(i int) metav1.ListOptions
	}{
		{"name", func(i int) metav1.ListOptions {
			return metav1.ListOptions{FieldSelector: inventoryv1alpha1.NameField + "=" + r.host(i), Limit: 500}
		}},
		{"serial number", func(i int) metav1.ListOptions {
			return metav1.ListOptions{FieldSelector: inventoryv1alpha1.SerialField + "=" + r.serial(i), Limit: 500}
		}},
		{"requester", func(i int) metav1.ListOptions {
			return metav1.ListOptions{FieldSelector: inventoryv1alpha1.RequesterField + "=" + r.requester(i), Limit: 500}
		}},
		{"domain", func(i int) metav1.ListOptions {
			return metav1.ListOptions{FieldSelector: inventoryv1alpha1.UnderField + "=" + r.host(i), Limit: 500}
		}},
		{"key and life, the first 100", func(int) metav1.ListOptions {
			return metav1.ListOptions{FieldSelector: inventoryv1alpha1.KeyTypeField + "=ECDSA-P256," + inventoryv1alpha1.LongerThanField + "=89d", Limit: 100}
		}},
		{"expiry, 100 of a week", func(int) metav1.ListOptions {
			return metav1.ListOptions{LabelSelector: inventoryv1alpha1.NotAfterLabel + "<" + strconv.FormatInt(r.begin.AddDate(0, 0, 7).Unix(), 10), Limit: 100}
		}},
	} {
		result := searchResult{By: by.name, Calls: calls}
		var took []time.Duration
		for range calls {
			begin := time.Now()
			list, err := all.List(ctx, by.options(mathrand.IntN(r.count)))
			if err != nil || len(list.Items) == 0 {
				if result.Errors++; result.Errors <= shownErrors {
					log.Printf("searching by %s: %v, and nothing was found", by.name, err)
				}
				continue
			}
			took = append(took, time.Since(begin))
		}
		result.P50Milliseconds, result.P99Milliseconds = percentiles(took)
		found = append(found, result)
	}
	return found, ctx.Err()
}

func (r *inventoryResult) write(out io.Writer) error {
	if r == nil {
		return nil
	}
	fmt.Fprintf(out, "\n%d records: %.0f MB on disk; a start takes %.1f s; memory at rest:\n", r.Records, r.DiskMB, r.StartSeconds)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	writeRest(table, atTime{"without", r.Before}, atTime{"with", r.After})
	fmt.Fprintln(table, "search by\tcalls\terrors\tp50 ms\tp99 ms\t")
	for _, s := range r.Searches {
		fmt.Fprintf(table, "%s\t%d\t%d\t%.1f\t%.1f\t\n", s.By, s.Calls, s.Errors, s.P50Milliseconds, s.P99Milliseconds)
	}
	return table.Flush()
}

func (r *inventoryResult) goals() []goal {
	all := []goal{
		{What: "inventory: disk", Unit: "MB", Is: r.DiskMB, Limit: 512},
		{What: "inventory: memory", Unit: "MB", Is: r.After.AnonymousMB - r.Before.AnonymousMB, Limit: 64},
	}
	for _, s := range r.Searches {
		all = append(all, goal{What: "inventory: search by " + s.By + ", p99", Unit: "ms", Is: s.P99Milliseconds, Limit: 50})
	}
	return all
}
