package inventory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	recordsv1alpha1 "github.com/certplane/certplane/api/records/v1alpha1"
)

// packsAPI is an API that counts writes and the bytes in its CertificatePacks, as JSON.
type packsAPI struct {
	client.Client
	writes int
	bytes  map[string]int
}

func newPacksAPI(t *testing.T) *packsAPI {
	t.Helper()
	kinds := k8sruntime.NewScheme()
	if err := recordsv1alpha1.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	api := &packsAPI{bytes: map[string]int{}}
	count := func(o client.Object) {
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		api.writes++
		api.bytes[o.GetName()] = len(data) + 400 // managed fields
	}
	api.Client = interceptor.NewClient(fake.NewClientBuilder().WithScheme(kinds).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			o.SetUID("3c1f2d80-5c0e-4d1a-9f58-5b7d0e2f9a11") // the fake one sets none
			count(o)
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			count(o)
			return c.Update(ctx, o, opts...)
		},
	})
	return api
}

func newPacks(t *testing.T, api client.Client) *Packs {
	t.Helper()
	p, err := NewPacks(PacksConfig{Client: api, Namespace: "certplane-system", Keep: 7 * 24 * time.Hour, MaxBytes: 4 << 20, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// issued returns the record of the certificate of a Certificate in one of twenty namespaces.
func issued(n int, ends time.Time) *Record {
	namespace, name := fmt.Sprintf("team-%d", n%20), fmt.Sprintf("app-%d-tls", n)
	digest := func(of string) string {
		digest := sha256.Sum256(fmt.Append(nil, of, n))
		return hex.EncodeToString(digest[:16])
	}
	r := &Record{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(ends.AddDate(0, 0, -90).Truncate(time.Second))},
		SignerName: "clusterissuers.cert-manager.io/ca",
		Certificate: inventoryv1alpha1.CertificateFacts{
			SerialNumber: digest("serial"), Fingerprint: digest("f") + digest("g"), KeyFingerprint: digest("k") + digest("l"), Twin: digest("twin"),
			Subject: "CN=" + name, CommonName: name, DNSNames: []string{fmt.Sprintf("app-%d.%s.svc", n, namespace), fmt.Sprintf("app-%d.example.com", n)},
			Issuer: "CN=ca", AuthorityKeyID: "6f1b3a9e2c5d48f70a1b2c3d4e5f6071a2b3c4d5", KeyType: "ECDSA P-256", SignatureAlgorithm: "ECDSA-SHA256", Usages: []string{"digital signature", "server auth"},
			NotBefore: metav1.NewTime(ends.AddDate(0, 0, -90)), NotAfter: metav1.NewTime(ends),
		},
		Request: inventoryv1alpha1.RequestFacts{
			APIGroup: "cert-manager.io", Kind: "CertificateRequest", Namespace: namespace, Name: name + "-1", UID: digest("uid"), Requester: "system:serviceaccount:certplane-system:cert-manager-certificates",
		},
		Approval: &inventoryv1alpha1.ApprovalFacts{Reason: "cert-manager.io", Message: "Certificate request has been approved by cert-manager.io"},
		Location: &inventoryv1alpha1.Location{Kind: "Certificate", Namespace: namespace, Name: name},
	}
	Complete(r)
	return r
}

// Records take 209 bytes each of the API's store, so that 160,000 fit into 32 MiB; 75 bytes of
// memory, so that they fit into 12 MiB; and a tenth of a write when many are made at once.
func TestPacksCost(t *testing.T) {
	const days, each = 10, 1200
	api := newPacksAPI(t)
	p := newPacks(t, api)
	first := time.Now().AddDate(0, 0, 30)
	for n := range days * each / 100 {
		var batch []*Record
		for m := range 100 {
			batch = append(batch, issued(100*n+m, first.AddDate(0, 0, n%days).Add(time.Duration(100*n+m)*time.Second/100)))
		}
		if err := p.Write(t.Context(), batch...); err != nil {
			t.Fatal(err)
		}
	}
	total := 0
	for _, size := range api.bytes {
		total += size
	}
	if got := total / (days * each); got > 209 {
		t.Errorf("%d bytes for each record", got)
	}
	if estimate := p.used.Load(); estimate < int64(total)*9/10 || estimate > int64(total)*11/10 {
		t.Errorf("%d bytes are estimated, it is %d", estimate, total)
	}
	if share := float64(api.writes) / (days * each); share > 0.1 {
		t.Errorf("%v writes for each record", share)
	}
	read := newPacks(t, api)
	if err := read.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	memory := 0
	for _, number := range read.daysBetween(0, 1<<62) {
		packs, _ := read.on(number)
		for _, info := range packs {
			memory += int(unsafe.Sizeof(*info)) + cap(info.filter) + len(info.key)
		}
	}
	if memory/(days*each) > 75 {
		t.Errorf("%d bytes of memory for each record", memory/(days*each))
	}
	began := time.Now()
	page, err := read.Find(t.Context(), &Query{Fields: fields.OneTermEqualSelector(inventoryv1alpha1.NameField, "app-777.example.com"), Limit: 10})
	if err != nil || len(page.Items) != 1 || page.Items[0].Request.Name != "app-777-tls-1" {
		t.Errorf("found %d records: %v", len(page.Items), err)
	}
	t.Logf("%d bytes in the store and %d of memory for each record, %.3f writes, search in %s", total/(days*each), memory/(days*each), float64(api.writes)/(days*each), time.Since(began))
}

// A damaged pack is reported, and neither hides others nor gets other records.
func TestDamagedPack(t *testing.T) {
	api := newPacksAPI(t)
	p := newPacks(t, api)
	ends := time.Now().AddDate(0, 0, 30)
	if err := p.Write(t.Context(), issued(1, ends)); err != nil {
		t.Fatal(err)
	}
	stored := &recordsv1alpha1.CertificatePackList{}
	if err := api.List(t.Context(), stored); err != nil || len(stored.Items) != 1 {
		t.Fatalf("%d packs, %v", len(stored.Items), err)
	}
	for _, change := range []func(*recordsv1alpha1.CertificatePack){
		func(o *recordsv1alpha1.CertificatePack) { o.Spec.Data = []byte("something else") },
		func(o *recordsv1alpha1.CertificatePack) { o.Annotations[recordsv1alpha1.FilterAnnotation] = "AA" },
	} {
		change(&stored.Items[0])
		if err := api.Update(t.Context(), &stored.Items[0]); err != nil {
			t.Fatal(err)
		}
		strict := newPacks(t, api)
		err := strict.Load(t.Context())
		if err == nil {
			_, err = strict.Find(t.Context(), &Query{Limit: 10})
		}
		if err == nil || !strings.Contains(err.Error(), "certplane-system/"+stored.Items[0].Name) {
			t.Errorf("a search says %v", err)
		}
		var damage []error
		lenient := newPacks(t, api)
		lenient.cfg.Damaged = func(err error) { damage = append(damage, err) }
		if err := lenient.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := lenient.Write(t.Context(), issued(2, ends)); err != nil {
			t.Fatal(err)
		}
		page, err := lenient.Find(t.Context(), &Query{Limit: 10})
		if err != nil || len(page.Items) != 1 || page.Items[0].Request.Name != "app-2-tls-1" || len(damage) == 0 {
			t.Errorf("%d records, %v, %d reports", len(page.Items), err, len(damage))
		}
	}
}
