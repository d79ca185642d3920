package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apiserver/extension/lean"
	"github.com/certplane/certplane/internal/apiserver/revoking"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/store/storespace"
	"github.com/certplane/certplane/internal/tenant"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

// recording makes the inventory record each certificate that a request receives, from any
// signer, and each denial.
type recording struct {
	records *inventory.Inventory
	clock   clock.PassiveClock
	// policies count approvals and decide; they can be nil.
	policies *policies.Policies
	// together is true if the store can write a record in the transaction that writes the
	// request. Otherwise the record is written first.
	together bool
	// space limits the room in the store; it can be nil.
	space *storespace.Space
	// revoker resolves Revocations.
	revoker *revoking.Revoker
	// approvals are the last ones that were stored with their requests, by UID: no other
	// process writes to a store that can do that.
	approvals *lru.Cache
}

// keptApprovals is about how many requests are between approval and signature at a time.
const keptApprovals = 1024

func newRecording(cfg Config) *recording {
	return &recording{
		records: cfg.Storage.Records, clock: cfg.Clock, policies: cfg.Policies, together: cfg.Storage.Connect != nil, space: cfg.Storage.Space, approvals: lru.New(keptApprovals),
	}
}

// decision returns the decision on a request in this write: the user, the time now, and the
// policies.
func (r *recording) decision(ctx context.Context, object client.Object, now metav1.Time) inventory.Approval {
	by, ok := ctx.Value(approverKey{}).(string)
	if !ok {
		by = userName(ctx)
	}
	made := inventory.Approval{Approver: by, Time: now}
	if policy := r.policies.Recorder().DecidedBy(object.GetUID()); policy != nil {
		made.Policies = append(made.Policies, inventoryv1alpha1.PolicyFacts(*policy))
	}
	return made
}

// wrap wraps the store of a resource.
func (r *recording) wrap(resource schema.GroupResource, store storage.Interface) storage.Interface {
	switch {
	case resource == revoking.Resource:
		return revokingStore{store, r}
	case r.records == nil:
		return store
	case requestkind.OfResource(resource) != nil:
		return recordingStore{store, r}
	case resource == revocable:
		return revocationStore{store, r}
	}
	return store
}

// recordingStore records the certificates in the objects that it stores.
type recordingStore struct {
	storage.Interface
	*recording
}

// Create implements storage.Interface.
func (s recordingStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	ctx, writes := withWrites(ctx)
	if err := s.record(ctx, writes, inventory.Answered{}, obj); err != nil {
		return err
	}
	if err := s.Interface.Create(ctx, key, obj, out, ttl); err != nil {
		s.recordLost(ctx, writes, obj, err)
		return err
	}
	s.wrote(writes)
	return nil
}

// lostTimeout is the time for the record of a certificate whose request is not stored.
const lostTimeout = 5 * time.Second

// recordLost records a certificate that was signed for a request that could not be stored,
// for example because another server took its name at the same time: every signed
// certificate gets a record. If the request was refused for lack of space, so is its record.
func (s recordingStore) recordLost(ctx context.Context, writes *writesOf, request runtime.Object, cause error) {
	if len(writes.ops) == 0 || errors.As(cause, &noSpace{}) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lostTimeout)
	defer cancel()
	if err := s.commit(ctx, writes, tenant.OfObject(request)); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot record a certificate whose request is not stored", "cause", cause)
		return
	}
	s.wrote(writes)
}

// Delete implements storage.Interface. It also removes the approval of a request without a
// certificate.
func (s recordingStore) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, options storage.DeleteOptions) error {
	if err := s.Interface.Delete(ctx, key, out, preconditions, validate, cached, options); err != nil {
		return err
	}
	if deleted := look(ctx, out); deleted.Approved && len(deleted.Certificate) == 0 {
		if _, err := s.records.Store.Do(ctx, s.records.Forget(deleted.UID())); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot remove the approval of a deleted request; it is removed after some weeks")
		}
	}
	return nil
}

// GuaranteedUpdate implements storage.Interface.
func (s recordingStore) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object) error {
	ctx, writes := withWrites(ctx)
	recorded := func(stored runtime.Object, info storage.ResponseMeta) (runtime.Object, *uint64, error) {
		*writes = writesOf{}
		before := look(ctx, stored) // now, because tryUpdate may change it
		before.Certificate = bytes.Clone(before.Certificate)
		updated, ttl, err := tryUpdate(stored, info)
		if err != nil {
			return updated, ttl, err
		}
		return updated, ttl, s.record(ctx, writes, before, updated)
	}
	if err := s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, recorded, cached); err != nil {
		return err
	}
	s.wrote(writes)
	return nil
}

// record adds to writes the records of a change of a request.
func (s recordingStore) record(ctx context.Context, writes *writesOf, before inventory.Answered, updated runtime.Object) error {
	after := look(ctx, updated)
	var err error
	now := metav1.NewTime(s.clock.Now().UTC().Truncate(time.Second))
	switch {
	case len(after.Certificate) > 0 && !bytes.Equal(before.Certificate, after.Certificate):
		err = s.recordIssued(ctx, writes, after, now)
	case after.Approved && !before.Approved && len(after.Certificate) == 0:
		if err := revokedKey(s.records.Revoked(), after.Object); err != nil {
			return err
		}
		approval := s.decision(ctx, after.Object, now)
		var op clientv3.Op
		if op, err = s.records.Approve(after.UID(), approval); err == nil {
			writes.ops = append(writes.ops, op)
			writes.after = func() { s.approvals.Add(after.UID(), approval) }
		}
	case after.Denied && !before.Denied:
		return s.recordDenied(ctx, writes, after, now)
	}
	if err != nil || s.together || len(writes.ops) == 0 {
		return err
	}
	return s.commit(ctx, writes, tenant.OfObject(updated))
}

// commit performs the writes that belong to an object of a tenant, without writing the
// object, if all conditions hold.
func (s *recording) commit(ctx context.Context, writes *writesOf, owner fairshare.Tenant, conditions ...clientv3.Cmp) error {
	write := storespace.Write{Owner: owner, Privileged: isPrivileged(ctx, owner), Denial: writes.denial, Revocation: writes.revocation, New: writes.size()}
	if s.space != nil {
		if err := s.space.Allow(ctx, write); err != nil {
			return explainSpace(err)
		}
	}
	answer, err := s.records.Store.Txn(ctx).If(conditions...).Then(writes.ops...).Commit()
	if err != nil {
		return fmt.Errorf("recording a certificate: %w", err)
	}
	if s.space != nil {
		s.space.Wrote(write)
	}
	if *writes = (writesOf{}); answer.Succeeded {
		writes.revision = answer.Header.Revision
	}
	return nil
}

// recordOf returns the record of a certificate that a request has received, with the votes
// that policies count. approval is nil if the approver is not known.
func (r *recording) recordOf(issued inventory.Answered, approval *inventory.Approval, now metav1.Time) (*inventoryv1alpha1.IssuedCertificate, error) {
	votes, policies := r.policies.Votes(issued.Object)
	if approval != nil && len(policies) > 0 {
		approval.Policies = policies
	}
	return issued.Record(approval, votes, now)
}

// certificatesController is the user who makes the requests of Certificates. Requests of
// other users only claim to belong to a Certificate.
var certificatesController = serviceaccount.MakeUsername(rights.ServeNamespace, rights.IssueCertificates.Account)

// write returns the write of a record for which a tenant pays.
func (r *recording) write(record *inventoryv1alpha1.IssuedCertificate, owner fairshare.Tenant) (clientv3.Op, error) {
	if l := record.Location; l != nil && l.Kind == cmv1.CertificateKind && record.Request.Requester == certificatesController {
		l.Claimed = false
	}
	inventory.Charge(record, tenant.Text(owner))
	return r.records.Write(record)
}

// recordDenied adds the record of a denial. If that is not written in the same transaction, it
// is written after the request: another write may come before, and the request is not denied.
func (s recordingStore) recordDenied(ctx context.Context, writes *writesOf, denied inventory.Answered, now metav1.Time) error {
	votes, _ := s.policies.Votes(denied.Object)
	record := denied.DenialRecord(s.decision(ctx, denied.Object, now), votes)
	owner := tenant.OfObject(denied.Object)
	op, err := s.write(record, owner)
	if err != nil {
		return err
	}
	writes.denial = true
	if s.together {
		writes.ops = append(writes.ops, op)
		return nil
	}
	writes.after = func() {
		late := &writesOf{ops: []clientv3.Op{op}, denial: true}
		if err := s.commit(ctx, late, owner); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot record the denial of a request", "request", record.Request.Name, "user", record.Denial.User)
			return
		}
		s.wrote(late)
	}
	return nil
}

func (s recordingStore) recordIssued(ctx context.Context, writes *writesOf, issued inventory.Answered, now metav1.Time) error {
	approval, err := s.approval(ctx, issued, now)
	if err != nil {
		return err
	}
	record, err := s.recordOf(issued, approval, now)
	if err != nil {
		return nil //nolint:nilerr // validation has accepted it: it is not for this store to refuse it
	}
	op, err := s.write(record, tenant.OfObject(issued.Object))
	if err != nil {
		return err
	}
	writes.ops = append(writes.ops, op)
	if s.together && approval != nil { // otherwise the request is not stored yet
		writes.ops = append(writes.ops, s.records.Forget(issued.UID()))
	}
	return s.revokePending(ctx, writes, issued, record)
}

// revokePending revokes the certificate if its request was pending when a Revocation that
// selects it was made.
func (s recordingStore) revokePending(ctx context.Context, writes *writesOf, issued inventory.Answered, record *inventoryv1alpha1.IssuedCertificate) error {
	act, entry, ok := revoking.Pending(s.records.Revoked(), record, issued.Object.GetCreationTimestamp().Time, record.CreationTimestamp.Time)
	if !ok {
		return nil
	}
	op, err := s.records.WriteEntries(act, []revocation.Entry{entry})
	if err != nil {
		return err
	}
	writes.ops = append(writes.ops, op)
	writes.after = func() {
		if act.Revision = writes.revision; act.Revision > 0 { // otherwise the watch of the store tells it
			revokingStore(s).inForce(ctx, act, []revocation.Entry{entry})
		}
	}
	return nil
}

// approval returns the approval of a request that receives its certificate now.
func (s recordingStore) approval(ctx context.Context, issued inventory.Answered, now metav1.Time) (*inventory.Approval, error) {
	if _, ok := ctx.Value(approverKey{}).(string); ok {
		return new(s.decision(ctx, issued.Object, now)), nil
	}
	if !issued.Approved {
		return nil, nil
	}
	if stored, ok := s.approvals.Get(issued.UID()); ok {
		return new(stored.(inventory.Approval)), nil
	}
	return s.records.Approval(ctx, issued.UID())
}

func (s *recording) wrote(writes *writesOf) {
	if writes.revision > 0 {
		s.records.Wrote(writes.revision)
	}
	if writes.after != nil {
		writes.after()
	}
}

// approverKey is the context key of the user who approved or denied a request during its
// creation.
type approverKey struct{}

// withApprover notes the user who approves or denies a request during its creation, if this
// update does so.
func withApprover(ctx context.Context, before, updated client.Object, by user.Info) context.Context {
	was, _ := inventory.Look(before)
	if is, ok := inventory.Look(updated); ok && (is.Approved && !was.Approved || is.Denied && !was.Denied) {
		return context.WithValue(ctx, approverKey{}, by.GetName())
	}
	return ctx
}

func userName(ctx context.Context) string {
	if user, ok := apirequest.UserFrom(ctx); ok {
		return user.GetName()
	}
	return ""
}

// look returns the inventory's view of a stored request. A request that controllers cannot
// read has nothing to record, but can be changed and deleted.
func look(ctx context.Context, stored runtime.Object) inventory.Answered {
	if l, ok := stored.(*lean.Object); ok && !lookedAt.MatchString(string(l.Status)) {
		answered, _ := inventory.Look(&cmv1.CertificateRequest{}) // nothing to be recorded
		return answered
	}
	request, err := viewOf(stored)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot read a request, so that its certificate would not be in the inventory")
		return inventory.Answered{}
	}
	answered, _ := inventory.Look(request)
	return answered
}

// lookedAt matches statuses in which there may be something to be recorded.
var lookedAt = regexp.MustCompile(`"certificate"|"Approved"|"Denied"`)

// viewOf returns a stored request as one of the types of clients.
func viewOf(stored runtime.Object) (client.Object, error) {
	switch stored := stored.(type) {
	case *lean.Object:
		return leanForm{}.View(stored)
	case *unstructured.Unstructured: // the library serves the definition
		request := &cmv1.CertificateRequest{}
		return request, runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, request)
	case client.Object:
		return stored, nil
	}
	return nil, fmt.Errorf("a %T is not an API object", stored)
}

// writesOf are additional writes that belong to the write of an object.
type writesOf struct {
	ops []clientv3.Op
	// revision is the revision of the store after the writes.
	revision int64
	// after, if not nil, is called once the object is written.
	after func()
	// denial is true if the object is a request that is denied.
	denial bool
	// revocation is true if the object revokes certificates.
	revocation bool
}

// size returns about how many bytes are written.
func (w *writesOf) size() (size int64) {
	for _, op := range w.ops {
		size += int64(len(op.KeyBytes()) + len(op.ValueBytes()))
	}
	return size
}

type writesKey struct{}

func withWrites(ctx context.Context) (context.Context, *writesOf) {
	writes := &writesOf{}
	return context.WithValue(ctx, writesKey{}, writes), writes
}

// togetherKV adds to transactions the writes of their contexts.
type togetherKV struct{ clientv3.KV }

// Txn implements clientv3.KV.
func (t togetherKV) Txn(ctx context.Context) clientv3.Txn {
	txn := t.KV.Txn(ctx)
	if writes, ok := ctx.Value(writesKey{}).(*writesOf); ok && len(writes.ops) > 0 {
		return &togetherTxn{txn, writes}
	}
	return txn
}

// togetherTxn is a transaction that writes an object and its additional writes.
type togetherTxn struct {
	clientv3.Txn
	writes *writesOf
}

// If implements clientv3.Txn.
func (t *togetherTxn) If(compares ...clientv3.Cmp) clientv3.Txn {
	t.Txn = t.Txn.If(compares...)
	return t
}

// Then implements clientv3.Txn.
func (t *togetherTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Then(append(ops, t.writes.ops...)...)
	return t
}

// Else implements clientv3.Txn.
func (t *togetherTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Else(ops...)
	return t
}

// Commit implements clientv3.Txn.
func (t *togetherTxn) Commit() (*clientv3.TxnResponse, error) {
	answer, err := t.Txn.Commit()
	if err == nil && answer.Succeeded {
		t.writes.revision = answer.Header.Revision
	}
	return answer, err
}
