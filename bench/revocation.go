package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apitest/freeport"
	"github.com/certplane/certplane/internal/frontend/revocationwebhook"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/store/etcd"
)

// revocationLoad is how much is revoked: by one act with open watches, one by one, and by one
// selection among records; and how many reviews the webhook answers.
type revocationLoad struct{ watches, single, reviews, records int }

// revocationResult is how soon, and at what cost, certificates are revoked.
type revocationResult struct {
	// Refused is from the call to the first refused request on an open connection.
	RefusedP50Milliseconds float64 `json:"refusedP50Milliseconds"`
	RefusedP99Milliseconds float64 `json:"refusedP99Milliseconds"`
	// CutSeconds is from the call to the end of the last of the watches.
	Watches    int     `json:"watches"`
	CutSeconds float64 `json:"cutSeconds"`
	// Rates are of revocations that follow one another, and of 64 at the same time.
	Single   roundResult `json:"single"`
	Parallel roundResult `json:"parallel"`
	// Reviews are answered by the webhook, 1,000 a second; every second one is about a revoked
	// certificate.
	Reviews               int     `json:"reviews"`
	ReviewErrors          int     `json:"reviewErrors"`
	ReviewP50Milliseconds float64 `json:"reviewP50Milliseconds"`
	ReviewP99Milliseconds float64 `json:"reviewP99Milliseconds"`
	ReviewCPU             float64 `json:"reviewCPU"` // of a processor
	// Mass is what the selection took.
	Mass massResult `json:"mass"`
}

// massResult is what many revoked certificates take.
type massResult struct {
	Records          int     `json:"records"`
	Revoked          int32   `json:"revoked"`
	SelectionSeconds float64 `json:"selectionSeconds"`
	// Calls of the API at rest, and while the selection runs.
	IdleP99Milliseconds float64 `json:"idleP99Milliseconds"`
	BusyP99Milliseconds float64 `json:"busyP99Milliseconds"`
	// ListSeconds is until the list had them all, after the answer; SignSeconds what the
	// server says that the slowest list took to build, sign and store.
	ListSeconds float64    `json:"listSeconds"`
	SignSeconds float64    `json:"signSeconds"`
	ListMB      float64    `json:"listMB"`
	DiskMB      float64    `json:"diskMB"`
	Before      restMemory `json:"before"`
	After       restMemory `json:"after"`
	// Start is until the server is ready.
	StartBeforeSeconds float64 `json:"startBeforeSeconds"`
	StartAfterSeconds  float64 `json:"startAfterSeconds"`
	// Certificates are obtained in three steps, before and after.
	CertificatesBefore roundResult `json:"certificatesBefore"`
	CertificatesAfter  roundResult `json:"certificatesAfter"`
}

const (
	// refusals is how often the time to the first refused request is measured.
	refusals         = 100
	reviewsPerSecond = 1000
	// revokers is how many revoke at the same time.
	revokers = 64
)

// massRound is the load of the normal path before and after the mass revocation.
var massRound = round{64, 4000}

// revoking is a server whose certificates are revoked.
type revoking struct {
	*system
	opts    options
	objects client.Client
	// requester obtains certificates, all with the key.
	requester *requesterClient
	key       []byte
	webhook   string
	result    *revocationResult
}

func measureRevocation(ctx context.Context, opts options, to *results) error {
	address, err := freeport.Address()
	if err != nil {
		return err
	}
	s, err := startConfigured(ctx, opts, configuration()+fmt.Sprintf("revocation: {webhook: {listen: %q}}\n", address))
	if err != nil {
		return err
	}
	r := revoking{system: s, opts: opts, webhook: "https://" + address, result: &revocationResult{}}
	to.Revocation = r.result
	return errors.Join(r.measureAll(ctx), s.stop())
}

func (r *revoking) measureAll(ctx context.Context) error {
	if err := r.connect(ctx); err != nil {
		return err
	}
	certificates, err := r.obtain(ctx, refusals+r.opts.revocation.watches+2*r.opts.revocation.single)
	if err != nil {
		return fmt.Errorf("obtaining certificates: %w", err)
	}
	take := func(n int) []issued {
		taken := certificates[:n]
		certificates = certificates[n:]
		return taken
	}
	authority := certificates[0].leaf.AuthorityKeyId
	revoked := take(refusals)
	if err := r.refuse(ctx, revoked); err != nil {
		return fmt.Errorf("first refused requests: %w", err)
	}
	if err := r.cut(ctx, take(r.opts.revocation.watches)); err != nil {
		return fmt.Errorf("watches: %w", err)
	}
	if r.result.Single, err = r.oneByOne(ctx, 1, take(r.opts.revocation.single)); err != nil {
		return err
	}
	if r.result.Parallel, err = r.oneByOne(ctx, revokers, take(r.opts.revocation.single)); err != nil {
		return err
	}
	// Controllers still write conditions and Events of the Revocations.
	if err := sleep(ctx, r.opts.settle); err != nil {
		return err
	}
	if err := r.review(ctx, revoked[0].leaf); err != nil {
		return fmt.Errorf("reviews: %w", err)
	}
	return r.mass(ctx, authority)
}

// connect makes the clients, again after each start.
func (r *revoking) connect(ctx context.Context) (err error) {
	cfg := rest.CopyConfig(r.admin)
	cfg.QPS = -1 // no limit
	if r.objects, err = newObjects(cfg); err != nil || r.requester != nil {
		return err
	}
	if r.requester, err = newRequesterClient(ctx, r.admin); err != nil {
		return err
	}
	r.requester.spec, r.key, err = newSpecAndKey(requester)
	return err
}

// issued is a certificate of the requester.
type issued struct {
	leaf *x509.Certificate
	pem  []byte
}

func (r *revoking) obtain(ctx context.Context, n int) ([]issued, error) {
	log.Printf("obtaining %d certificates", n)
	waiting, err := newWaiting(ctx, r.requester)
	if err != nil {
		return nil, err
	}
	defer waiting.stop()
	all, failed := make([]issued, n), make([]error, n)
	inParallel(ctx, creators, n, func(i int) {
		text, err := waiting.obtain(ctx, r.requester, fmt.Sprintf("revoked-%d", i))
		if err == nil {
			all[i].pem = text
			all[i].leaf, err = firstCertificate(text)
		}
		failed[i] = err
	})
	return all, errors.Join(append(failed, ctx.Err())...)
}

func firstCertificate(text []byte) (*x509.Certificate, error) {
	certificates, err := pki.ParseCertificates(text)
	if err != nil {
		return nil, err
	}
	return certificates[0], nil
}

// as returns a client that has a certificate, and one connection.
func (r *revoking) as(c issued) (*http.Client, error) {
	cfg := rest.AnonymousClientConfig(r.admin)
	cfg.CertData, cfg.KeyData = c.pem, r.key
	tls, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: tls, MaxConnsPerHost: 1}}, nil
}

func (r *revoking) revoke(ctx context.Context, spec v1alpha1.RevocationSpec) (*v1alpha1.Revocation, error) {
	spec.Reason, spec.Message = "KeyCompromise", "benchmark"
	if spec.Selection == nil { // the key is that of all
		spec.Reason = "Superseded"
	}
	object := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}, Spec: spec}
	return object, r.objects.Create(ctx, object)
}

func (r *revoking) revokeCertificates(ctx context.Context, certificates ...issued) error {
	var spec v1alpha1.RevocationSpec
	for _, c := range certificates {
		spec.Certificates = append(spec.Certificates, v1alpha1.RevokedCertificate{
			SerialNumber: c.leaf.SerialNumber.Text(16), AuthorityKeyID: hex.EncodeToString(c.leaf.AuthorityKeyId),
		})
	}
	_, err := r.revoke(ctx, spec)
	return err
}

// refuse measures how soon a client is refused that calls all the time.
func (r *revoking) refuse(ctx context.Context, certificates []issued) error {
	var took []time.Duration
	for _, c := range certificates {
		caller, err := r.as(c)
		if err != nil {
			return err
		}
		call := func() (refused bool, err error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.admin.Host+"/apis", nil)
			if err != nil {
				return false, err
			}
			answer, err := caller.Do(request)
			if err != nil { // the connection was cut
				return true, ctx.Err()
			}
			answer.Body.Close()
			return answer.StatusCode == http.StatusUnauthorized, nil
		}
		if refused, err := call(); refused || err != nil {
			return errors.Join(errors.New("refused before the revocation"), err)
		}
		begin, revoked := time.Now(), make(chan error, 1)
		go func() { revoked <- r.revokeCertificates(ctx, c) }()
		for refused := false; !refused; {
			if refused, err = call(); err != nil {
				return err
			}
		}
		took = append(took, time.Since(begin))
		if err := <-revoked; err != nil {
			return err
		}
		caller.CloseIdleConnections()
	}
	r.result.RefusedP50Milliseconds, r.result.RefusedP99Milliseconds = percentiles(took)
	return nil
}

// cut measures how soon the watches of certificates end that are revoked together.
func (r *revoking) cut(ctx context.Context, certificates []issued) error {
	log.Printf("opening %d watches", len(certificates))
	bodies, failed := make([]io.ReadCloser, len(certificates)), make([]error, len(certificates))
	inParallel(ctx, creators, len(certificates), func(i int) {
		watcher, err := r.as(certificates[i])
		if err == nil {
			bodies[i], err = openWatch(ctx, watcher, r.admin.Host)
		}
		failed[i] = err
	})
	if err := errors.Join(append(failed, ctx.Err())...); err != nil {
		return err
	}
	var watching sync.WaitGroup
	for _, body := range bodies {
		watching.Go(func() {
			io.Copy(io.Discard, body) // ends with an error
			body.Close()
		})
	}
	begin := time.Now()
	if err := r.revokeCertificates(ctx, certificates...); err != nil {
		return err
	}
	watching.Wait()
	r.result.Watches, r.result.CutSeconds = len(bodies), time.Since(begin).Seconds()
	return ctx.Err()
}

// openWatch opens a watch that has no events.
func openWatch(ctx context.Context, watcher *http.Client, host string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, host+csrs+"?watch=1&fieldSelector=metadata.name%3Dnone", nil)
	if err != nil {
		return nil, err
	}
	answer, err := watcher.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, errors.Join(errors.New(answer.Status), answer.Body.Close())
	}
	return answer.Body, nil
}

func (r *revoking) oneByOne(ctx context.Context, revokers int, certificates []issued) (roundResult, error) {
	log.Printf("%d revocations, %d at the same time", len(certificates), revokers)
	return r.measureRound(ctx, round{revokers, len(certificates)}, func(_ string, i int) error {
		return r.revokeCertificates(ctx, certificates[i])
	})
}

// review has the webhook answer as a kube-apiserver asks.
func (r *revoking) review(ctx context.Context, revoked *x509.Certificate) error {
	transport, err := rest.TLSConfigFor(rest.AnonymousClientConfig(r.admin))
	if err != nil {
		return err
	}
	asker := &http.Client{Transport: &http.Transport{TLSClientConfig: transport, MaxIdleConnsPerHost: revokers, ForceAttemptHTTP2: true}}
	digests := [][sha256.Size]byte{sha256.Sum256(revoked.Raw), sha256.Sum256([]byte("unknown"))}
	var bodies [][]byte
	for _, digest := range digests {
		review := authorizationv1.SubjectAccessReview{TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"}}
		review.Spec.User, review.Spec.Groups = "requester", []string{"system:authenticated"}
		review.Spec.Extra = map[string]authorizationv1.ExtraValue{revocationwebhook.CredentialID: {revocationwebhook.Certificate + hex.EncodeToString(digest[:])}}
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Namespace: "default", Verb: "list", Version: "v1", Resource: "pods"}
		body, err := json.Marshal(review)
		if err != nil {
			return err
		}
		bodies = append(bodies, body)
	}
	took := make([]time.Duration, r.opts.revocation.reviews)
	var failures atomic.Int64
	used, err := r.measure(ctx, func() {
		load{objects: len(took), perSecond: reviewsPerSecond}.each(ctx, func(i int) {
			begin := time.Now()
			denied, err := ask(ctx, asker, r.webhook+revocationwebhook.Path, bodies[i%2])
			took[i] = time.Since(begin)
			if err == nil && denied != (i%2 == 0) {
				err = fmt.Errorf("denied is %t", denied)
			}
			if err != nil && failures.Add(1) <= shownErrors {
				log.Printf("review: %v", err)
			}
		})
	})
	r.result.Reviews, r.result.ReviewErrors = len(took), int(failures.Load())
	r.result.ReviewCPU = ratio(used.serverCPU.Seconds(), used.took.Seconds())
	r.result.ReviewP50Milliseconds, r.result.ReviewP99Milliseconds = percentiles(took)
	return err
}

func ask(ctx context.Context, asker *http.Client, url string, body []byte) (denied bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := asker.Do(request)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	review := authorizationv1.SubjectAccessReview{}
	if err := json.NewDecoder(answer.Body).Decode(&review); err != nil {
		return false, fmt.Errorf("%s: %w", answer.Status, err)
	}
	return review.Status.Denied, nil
}

// massSigner is the signer of the records that are revoked together.
const massSigner = "example.com/lost"

// mass revokes half of many records by one selection.
func (r *revoking) mass(ctx context.Context, authority []byte) error {
	m := &r.result.Mass
	records := newRecords(r.opts.revocation.records)
	records.signer, records.authority = massSigner, hex.EncodeToString(authority)
	m.Records = records.count
	log.Printf("recording %d certificates", records.count)
	etcdDir := filepath.Join(r.dir, "data", "etcd")
	if err := r.restart(ctx, func() error { _, err := records.fill(ctx, etcdDir); return err }); err != nil {
		return err
	}
	var err error
	if m.CertificatesBefore, err = r.certificates(ctx); err != nil {
		return err
	}
	before := 0.0
	if err := r.restart(ctx, func() error { before, err = storeMB(ctx, etcdDir); return err }); err != nil {
		return err
	}
	m.StartBeforeSeconds = r.startup.Seconds()
	if m.Before, err = atRest(ctx, r.system, r.opts.settle); err != nil {
		return err
	}
	if err := r.selectMany(ctx, m); err != nil {
		return fmt.Errorf("the selection: %w", err)
	}
	after := 0.0
	if err := r.restart(ctx, func() error { after, err = storeMB(ctx, etcdDir); return err }); err != nil {
		return err
	}
	m.DiskMB, m.StartAfterSeconds = after-before, r.startup.Seconds()
	if m.After, err = atRest(ctx, r.system, r.opts.settle); err != nil {
		return err
	}
	m.CertificatesAfter, err = r.certificates(ctx)
	return err
}

// restart does something while the server does not run.
func (r *revoking) restart(ctx context.Context, meanwhile func() error) error {
	err := r.again(ctx, r.opts, func(p *process) error {
		if err := p.stop(); err != nil {
			return err
		}
		return meanwhile()
	})
	if err != nil {
		return err
	}
	return r.connect(ctx)
}

func (r *revoking) certificates(ctx context.Context) (roundResult, error) {
	return measureRound(ctx, r.system, r.requester, massRound, (*waiting).obtain)
}

// storeMB is the size of the store of a server that does not run, without what it can reuse.
func storeMB(ctx context.Context, dir string) (float64, error) {
	store, err := etcd.Start(ctx, etcd.Config{Dir: dir})
	if err != nil {
		return 0, err
	}
	defer store.Stop()
	full, err := reclaimed(ctx, store)
	return float64(full.Size) / 1e6, err
}

// idleCalls is how many calls of the API are measured before the selection.
const idleCalls, callsPerSecond = 500, 50

func (r *revoking) selectMany(ctx context.Context, m *massResult) error {
	caller, err := rest.HTTPClientFor(r.admin)
	if err != nil {
		return err
	}
	call := func(ctx context.Context) (time.Duration, error) {
		begin := time.Now()
		_, err := readPage(ctx, caller, r.admin.Host+"/apis/certplane.dev/v1alpha1/certificatepolicies", 1)
		return time.Since(begin), err
	}
	idle, err := callAtRate(ctx, idleCalls, call)
	if err != nil {
		return err
	}
	_, m.IdleP99Milliseconds = percentiles(idle)

	calling, stop := context.WithCancel(ctx)
	called := make(chan []time.Duration)
	go func() {
		took, _ := callAtRate(calling, 1<<30, call) // until it is stopped
		called <- took
	}()
	log.Printf("selecting %d certificates of %d", m.Records/2, m.Records)
	finish := r.opts.startProfile(ctx, r.system, "revocation", 0)
	begin := time.Now()
	object, err := r.revoke(ctx, v1alpha1.RevocationSpec{Selection: &v1alpha1.RevocationSelection{Signers: []string{massSigner}}, AtMost: int32(m.Records)})
	m.SelectionSeconds = time.Since(begin).Seconds()
	stop()
	_, m.BusyP99Milliseconds = percentiles(<-called)
	if err != nil {
		return err
	}
	finish()
	m.Revoked = object.Status.Recorded
	begin = time.Now()
	list, err := r.awaitList(ctx, int64(m.Revoked))
	if err != nil {
		return err
	}
	m.ListSeconds, m.ListMB = time.Since(begin).Seconds(), float64(list.Bytes)/1e6
	m.SignSeconds, err = r.signed(ctx)
	return err
}

// callAtRate calls callsPerSecond times a second, until the context ends.
func callAtRate(ctx context.Context, n int, call func(context.Context) (time.Duration, error)) ([]time.Duration, error) {
	var took []time.Duration
	pace := time.NewTicker(time.Second / callsPerSecond)
	defer pace.Stop()
	for range n {
		one, err := call(ctx)
		if err != nil {
			return took, err
		}
		took = append(took, one)
		<-pace.C
	}
	return took, nil
}

// awaitList returns the list that has at least some entries.
func (r *revoking) awaitList(ctx context.Context, entries int64) (*inventoryv1alpha1.RevocationList, error) {
	for {
		text, err := get(ctx, r.admin, "/apis/"+inventoryv1alpha1.GroupVersion.String()+"/revocationlists", nil)
		if err != nil {
			return nil, err
		}
		var lists inventoryv1alpha1.RevocationListList
		if err := json.Unmarshal(text, &lists); err != nil {
			return nil, err
		}
		for _, list := range lists.Items {
			if list.Entries >= entries {
				return &list, nil
			}
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// signed is how long the server has taken to make all its lists since its start: nearly all
// of it is the largest one's.
func (r *revoking) signed(ctx context.Context) (seconds float64, err error) {
	metrics, err := get(ctx, r.admin, "/metrics", nil)
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(metrics), "\ncertplane_crl_sign_duration_seconds_sum ")
	_, err = fmt.Sscan(after, &seconds)
	return seconds, err
}

func (r *revocationResult) write(out io.Writer) error {
	if r == nil {
		return nil
	}
	m := r.Mass
	fmt.Fprintln(out, "\nRevocation:")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range []string{
		fmt.Sprintf("call to first refused request\tp50 %.1f ms, p99 %.1f ms", r.RefusedP50Milliseconds, r.RefusedP99Milliseconds),
		fmt.Sprintf("%d watches are cut\tthe last after %.2f s", r.Watches, r.CutSeconds),
		fmt.Sprintf("revocations one after the other\t%.0f/s, %d errors, %.2f ms of CPU each", r.Single.Rate, r.Single.Errors, r.Single.ServerCPUMilliseconds),
		fmt.Sprintf("%d at the same time\t%.0f/s, %d errors, %.2f ms of CPU each", r.Parallel.Requesters, r.Parallel.Rate, r.Parallel.Errors, r.Parallel.ServerCPUMilliseconds),
		fmt.Sprintf("%d reviews, %d a second\tp50 %.2f ms, p99 %.2f ms, %d errors, %.0f %% of a core", r.Reviews, reviewsPerSecond, r.ReviewP50Milliseconds, r.ReviewP99Milliseconds, r.ReviewErrors, 100*r.ReviewCPU),
		fmt.Sprintf("selection of %d among %d records\t%.1f s; API p99 %.1f ms meanwhile, %.1f ms before", m.Revoked, m.Records, m.SelectionSeconds, m.BusyP99Milliseconds, m.IdleP99Milliseconds),
		fmt.Sprintf("their list\t%.1f MB, %.2f s after the answer; %.2f s to build, sign and store", m.ListMB, m.ListSeconds, m.SignSeconds),
		fmt.Sprintf("they take\t%.0f MB of the store, %.0f MB of memory", m.DiskMB, m.After.AnonymousMB-m.Before.AnonymousMB),
		fmt.Sprintf("start\t%.2f s, %.2f s before", m.StartAfterSeconds, m.StartBeforeSeconds),
		fmt.Sprintf("certificates in three steps\t%.0f/s, %.2f ms of CPU, %.1f KB; before %.0f/s, %.2f ms, %.1f KB", m.CertificatesAfter.Rate, m.CertificatesAfter.ServerCPUMilliseconds, m.CertificatesAfter.AllocatedKB,
			m.CertificatesBefore.Rate, m.CertificatesBefore.ServerCPUMilliseconds, m.CertificatesBefore.AllocatedKB),
	} {
		fmt.Fprintln(table, row)
	}
	return table.Flush()
}

func (r *revocationResult) goals() []goal {
	m := r.Mass
	return []goal{
		{What: "revocation: call to first refused request, p99", Unit: "ms", Is: r.RefusedP99Milliseconds, Limit: 100},
		{What: fmt.Sprintf("revocation: %d watches cut", r.Watches), Unit: "s", Is: r.CutSeconds, Limit: 1},
		{What: "revocation: one after the other", Unit: "/s", Is: r.Single.Rate, Limit: 150, AtLeast: true},
		{What: fmt.Sprintf("revocation: %d at the same time", r.Parallel.Requesters), Unit: "/s", Is: r.Parallel.Rate, Limit: 400, AtLeast: true},
		{What: "revocation: webhook, p99", Unit: "ms", Is: r.ReviewP99Milliseconds, Limit: 2},
		{What: fmt.Sprintf("revocation: selection of %d", m.Revoked), Unit: "s", Is: m.SelectionSeconds, Limit: 120},
		{What: "revocation: API p99 during the selection", Unit: "of idle", Is: ratio(m.BusyP99Milliseconds, m.IdleP99Milliseconds), Limit: 2},
		{What: fmt.Sprintf("revocation: list of %d", m.Revoked), Unit: "s", Is: m.SignSeconds, Limit: 1},
		{What: fmt.Sprintf("revocation: store of %d", m.Revoked), Unit: "MB", Is: m.DiskMB, Limit: 80},
		{What: fmt.Sprintf("revocation: memory of %d", m.Revoked), Unit: "MB", Is: m.After.AnonymousMB - m.Before.AnonymousMB, Limit: 100},
		{What: fmt.Sprintf("revocation: start with %d", m.Revoked), Unit: "s more", Is: m.StartAfterSeconds - m.StartBeforeSeconds, Limit: 1.5},
		{What: "revocation: certificates in three steps, rate", Unit: "of before", Is: ratio(m.CertificatesAfter.Rate, m.CertificatesBefore.Rate), Limit: 0.99, AtLeast: true},
		{What: "revocation: certificates in three steps, CPU", Unit: "of before", Is: ratio(m.CertificatesAfter.ServerCPUMilliseconds, m.CertificatesBefore.ServerCPUMilliseconds), Limit: 1.01},
		{What: "revocation: certificates in three steps, allocated", Unit: "of before", Is: ratio(m.CertificatesAfter.AllocatedKB, m.CertificatesBefore.AllocatedKB), Limit: 1.01},
	}
}
