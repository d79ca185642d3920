package record

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	recordsv1alpha1 "github.com/certplane/certplane/api/records/v1alpha1"
	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/worker"
)

const (
	// gather is how long certificates that others have signed are gathered before they are
	// recorded.
	gather = 500 * time.Millisecond
	// batch is how many of them are recorded at once.
	batch = 5000
	// cleanEvery is how often ended records are deleted.
	cleanEvery = 10 * time.Minute
	// writeTimeout is how long a batch may take.
	writeTimeout = time.Minute
	// firstPause and lastPause bound the wait after an error.
	firstPause = time.Second
	lastPause  = time.Minute
)

// Start implements manager.Runnable: it records certificates of the requests in the API, packs
// records and deletes those of ended certificates, while the API has CertificatePacks.
func (r *Recorder) Start(ctx context.Context) error {
	packs := worker.OneVersion(recordsv1alpha1.GroupVersion, "certificatepacks", r.Versions)
	return packs.While(ctx, name, "Recording certificates", r.work)
}

func (r *Recorder) work(ctx context.Context, _ string) error {
	if err := r.packs.Load(ctx); err != nil {
		return err
	}
	go r.packs.ShowMetrics(ctx)
	for _, kind := range r.Settings.Kinds {
		go r.follow(ctx, kind)
	}
	logger := log.FromContext(ctx)
	clean, pause := time.NewTicker(cleanEvery), firstPause
	defer clean.Stop()
	for worker.Sleep(ctx, gather) {
		err := r.recordDue(ctx)
		select {
		case <-clean.C:
			err = errors.Join(err, r.packs.Clean(ctx)) // it can make the room that another write needs
		default:
		}
		if err == nil {
			pause = firstPause
			continue
		}
		if ctx.Err() == nil {
			logger.Error(err, "Keeping the inventory failed; trying again", "in", pause)
		}
		worker.Sleep(ctx, pause)
		pause = min(2*pause, lastPause)
	}
	return nil
}

// follow notes the requests of a kind with certificates until ctx ends.
func (r *Recorder) follow(ctx context.Context, kind string) {
	resource, object := worker.OneVersion(certificatesv1.SchemeGroupVersion, "certificatesigningrequests", r.Versions), client.Object(&certificatesv1.CertificateSigningRequest{})
	switch kind {
	case certificateRequests:
		resource, object = worker.OneVersion(cmv1.SchemeGroupVersion, "certificaterequests", r.Versions), &cmv1.CertificateRequest{}
	case podRequests:
		resource = worker.Resource{Group: certificatesv1.GroupName, Versions: []string{"v1", "v1beta1"}, Name: "podcertificaterequests", Lookup: r.Versions}
	}
	resource.Follow(ctx, "Recording the certificates of "+kind+"s", func(ctx context.Context, version string) error {
		if kind == podRequests {
			object = certificates.PodRequestVersions[version].New()
		}
		informer, err := r.Requests.GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("watching %ss: %w", kind, err)
		}
		handler := toolscache.ResourceEventHandlerFuncs{AddFunc: r.see, UpdateFunc: func(_, after any) { r.see(after) }, DeleteFunc: r.unsee}
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("watching %ss: %w", kind, err)
		}
		<-ctx.Done()
		return informer.RemoveEventHandler(registration)
	})
}

// see notes a request if it has a certificate.
func (r *Recorder) see(object any) {
	request, ok := object.(client.Object)
	if pod := certificates.PodRequestFrom(object); pod != nil {
		request = pod
	}
	answered, isRequest := inventory.Look(request)
	if !ok || !isRequest || len(answered.Certificate) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.recorded[answered.UID()]; !ok {
		r.due[answered.UID()] = request
	}
}

// unsee forgets a deleted request. If its certificate is due, that is still recorded.
func (r *Recorder) unsee(object any) {
	if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	if request, ok := object.(client.Object); ok {
		r.see(request)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.recorded, request.GetUID())
	}
}

// recordDue records the certificates that were seen and have no record.
func (r *Recorder) recordDue(ctx context.Context) error {
	for {
		r.mu.Lock()
		due := slices.Collect(maps.Values(r.due))
		r.mu.Unlock()
		if len(due) == 0 {
			return nil
		}
		if err := r.recordAll(ctx, due[:min(batch, len(due))]); err != nil {
			return err
		}
	}
}

// recordAll records the certificates of requests that have no record.
func (r *Recorder) recordAll(ctx context.Context, requests []client.Object) error {
	of := map[*x509.Certificate]inventory.Answered{}
	var certs []*x509.Certificate
	var done []types.UID
	for _, request := range requests {
		answered, _ := inventory.Look(request)
		done = append(done, answered.UID())
		// A certificate that cannot be read is not recorded.
		if chain, err := pki.ParseCertificates(answered.Certificate); err == nil && len(chain) > 0 {
			certs, of[chain[0]] = append(certs, chain[0]), answered
		}
	}
	missing, err := r.packs.Unrecorded(ctx, certs)
	if err != nil {
		return err
	}
	var records []*inventory.Record
	for _, cert := range missing {
		answered := of[cert]
		if !r.admit(ctx, answered.Kind()) {
			continue
		}
		if record, err := r.recordOf(answered, inventory.IssuedAt(cert, answered.Object, r.Now().UTC().Truncate(time.Second))); err == nil {
			records = append(records, record)
		}
	}
	if len(records) > 0 {
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		if err := r.packs.Write(ctx, records...); err != nil {
			return err
		}
	}
	r.note(done...)
	return nil
}
