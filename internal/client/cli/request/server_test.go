package request

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/certplane/certplane/internal/pki"
)

type csrObject = certificatesv1.CertificateSigningRequest

// server is a fake certificates API that holds one request. Tests script its
// failures and what other clients do to the request.
type server struct {
	t  *testing.T
	mu sync.Mutex
	rv int

	stored *csrObject
	// createErr and approveErr are returned instead of the API's answers, one
	// for each call.
	createErr, approveErr []error
	// storeAnyway makes Create store the request although it returns an error.
	storeAnyway bool
	// listErr and watchErr are the errors of lists and watches, one for each
	// call.
	listErr, watchErr []error
	// onWatch changes the request once a watch has begun, one for each watch.
	// Later watches see no changes.
	onWatch []func(s *server, w *watch.RaceFreeFakeWatcher)

	// onConflict is what another client does when approveErr is a conflict.
	onConflict func()

	approvals []certificatesv1.CertificateSigningRequestCondition
	lists     int

	// silent is the method that is not answered before its context ends.
	silent string
}

// answers returns an error once the context ends if the method is not answered.
func (s *server) answers(ctx context.Context, method string) error {
	if s.silent != method {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *server) next() string {
	s.rv++
	return strconv.Itoa(s.rv)
}

func (s *server) Create(ctx context.Context, csr *csrObject, options metav1.CreateOptions) (*csrObject, error) {
	if err := s.answers(ctx, "create"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := take(&s.createErr)
	if err != nil && !s.storeAnyway {
		return nil, err
	}
	if err == nil && s.stored != nil && s.stored.Name == csr.Name {
		return nil, apierrors.NewAlreadyExists(resource, csr.Name)
	}
	csr = csr.DeepCopy()
	if csr.Name == "" {
		csr.Name = csr.GenerateName + "x7k2p"
	}
	csr.UID = types.UID("uid-" + s.next())
	csr.ResourceVersion = s.next()
	if len(options.DryRun) == 0 {
		s.stored = csr
	}
	return csr.DeepCopy(), err
}

func (s *server) Get(ctx context.Context, name string, _ metav1.GetOptions) (*csrObject, error) {
	if err := s.answers(ctx, "get"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stored == nil || s.stored.Name != name {
		return nil, apierrors.NewNotFound(resource, name)
	}
	return s.stored.DeepCopy(), nil
}

func (s *server) List(ctx context.Context, options metav1.ListOptions) (*certificatesv1.CertificateSigningRequestList, error) {
	if err := s.answers(ctx, "list"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	if err := take(&s.listErr); err != nil {
		return nil, err
	}
	list := &certificatesv1.CertificateSigningRequestList{ListMeta: metav1.ListMeta{ResourceVersion: s.next()}}
	if s.stored != nil && options.FieldSelector == "metadata.name="+s.stored.Name {
		list.Items = append(list.Items, *s.stored.DeepCopy())
	}
	return list, nil
}

func (s *server) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if options.ResourceVersion == "" {
		s.t.Error("watch without a resource version can miss or repeat what the list saw")
	}
	if err := take(&s.watchErr); err != nil {
		return nil, err
	}
	w := watch.NewRaceFreeFake()
	if step := take(&s.onWatch); step != nil {
		step(s, w)
	}
	return w, nil
}

func (s *server) UpdateApproval(ctx context.Context, name string, csr *csrObject, _ metav1.UpdateOptions) (*csrObject, error) {
	if err := s.answers(ctx, "approve"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := take(&s.approveErr); err != nil {
		if s.onConflict != nil {
			s.onConflict()
		}
		return nil, err
	}
	if csr.ResourceVersion != s.stored.ResourceVersion {
		return nil, apierrors.NewConflict(resource, name, errors.New("modified"))
	}
	s.stored.Status.Conditions = csr.Status.Conditions
	s.stored.ResourceVersion = s.next()
	s.approvals = append(s.approvals, csr.Status.Conditions...)
	return s.stored.DeepCopy(), nil
}

var resource = certificatesv1.Resource("certificatesigningrequests")

func take[T any](script *[]T) (head T) {
	if len(*script) > 0 {
		head, *script = (*script)[0], (*script)[1:]
	}
	return head
}

// The steps below change the stored request and send an event to the watch.

func condition(kind certificatesv1.RequestConditionType, reason, message string) func(*server, *watch.RaceFreeFakeWatcher) {
	return func(s *server, w *watch.RaceFreeFakeWatcher) {
		s.stored.Status.Conditions = append(s.stored.Status.Conditions,
			certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message})
		s.stored.ResourceVersion = s.next()
		w.Modify(s.stored.DeepCopy())
	}
}

// signed approves and issues with ca.
func signed(ca authority) func(*server, *watch.RaceFreeFakeWatcher) {
	return func(s *server, w *watch.RaceFreeFakeWatcher) {
		s.stored.Status.Certificate = ca.issue(s.t, s.stored)
		condition(certificatesv1.CertificateApproved, "Test", "")(s, w)
	}
}

func deleted(s *server, w *watch.RaceFreeFakeWatcher) {
	gone := s.stored
	gone.ResourceVersion = s.next()
	s.stored = nil
	w.Delete(gone)
}

func replaced(s *server, w *watch.RaceFreeFakeWatcher) {
	s.stored = s.stored.DeepCopy()
	s.stored.UID = "another"
	s.stored.ResourceVersion = s.next()
	w.Add(s.stored.DeepCopy())
}

func watchFails(status metav1.Status) func(*server, *watch.RaceFreeFakeWatcher) {
	return func(_ *server, w *watch.RaceFreeFakeWatcher) { w.Error(&status) }
}

// authority issues certificates for requests, as requested unless change is
// set.
type authority struct {
	ca *pki.Authority
	// change is applied to each issued certificate.
	change func(*issue)
}

// issue is what a certificate gets.
type issue struct {
	subject  pki.Subject
	key      any
	usages   []certificatesv1.KeyUsage
	lifetime time.Duration
	now      time.Time
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "test", key, 48*time.Hour, testNow.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return authority{ca: ca}
}

func (a authority) with(change func(*issue)) authority {
	a.change = change
	return a
}

func (a authority) issue(t *testing.T, csr *csrObject) []byte {
	t.Helper()
	req, err := pki.ParseRequest(csr.Spec.Request)
	if err != nil {
		t.Fatal(err)
	}
	what := issue{
		subject: pki.Subject{
			CommonName: req.Subject.CommonName, Organizations: req.Subject.Organization,
			DNSNames: req.DNSNames, IPAddresses: req.IPAddresses, URIs: req.URIs, EmailAddresses: req.EmailAddresses,
		},
		key: req.PublicKey, usages: csr.Spec.Usages, lifetime: time.Hour, now: testNow,
	}
	if seconds := csr.Spec.ExpirationSeconds; seconds != nil {
		what.lifetime = time.Duration(*seconds) * time.Second
	}
	if a.change != nil {
		a.change(&what)
	}
	usages, err := pki.ParseUsages(what.usages)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := a.ca.Issue(pki.UnrecordedSigning, what.subject, what.key, usages, what.lifetime, what.now)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte(fmt.Sprintf("issued by %s\n", a.ca.Certificate().Subject)), pki.EncodeCertificates(chain...)...)
}
