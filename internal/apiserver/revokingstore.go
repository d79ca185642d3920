package apiserver

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	genericadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/admission"
	"github.com/certplane/certplane/internal/apiserver/authn"
	"github.com/certplane/certplane/internal/apiserver/extension/lean"
	"github.com/certplane/certplane/internal/apiserver/revoking"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/tenant"
)

// revokingStore makes Revocations take effect: it stores the entries of a Revocation in the
// transaction that stores the object, and adds them to the index of this process before it
// answers. With an external etcd, the entries are written just before the object.
type revokingStore struct {
	storage.Interface
	*recording
}

// Create implements storage.Interface.
func (s revokingStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	object, err := revocationOf(obj)
	if err != nil {
		return err
	}
	by, ok := apirequest.UserFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(errors.New("the request that creates a Revocation has no user"))
	}
	resolved, err := s.revoker.Resolve(ctx, by, object)
	if err != nil {
		return err
	}
	if err := setStatus(obj, &resolved.Status); err != nil {
		return err
	}
	act := revocation.Act{UID: object.UID, Name: object.Name, User: by.GetName()}
	parts := resolved.Parts()
	if len(parts) == 0 {
		return s.Interface.Create(ctx, key, obj, out, ttl)
	}
	// All but the first part come before the object: a Revocation that is stored is complete.
	// If this fails halfway, more is revoked than is answered.
	for n, part := range parts[1:] {
		of := act
		of.UID = types.UID(fmt.Sprintf("%s-%d", act.UID, n+1))
		if err := s.write(ctx, of, part); err != nil {
			return err
		}
	}
	ctx, writes := withWrites(ctx)
	writes.revocation = true
	if act.Pending = resolved.Pending; act.Pending != "" {
		defer func() { go s.catchUp(apirequest.WithUser(context.Background(), by), resolved.Since) }()
	}
	if !s.together {
		if err := s.write(ctx, act, parts[0]); err != nil {
			return err
		}
		return s.Interface.Create(ctx, key, obj, out, ttl)
	}
	op, err := s.records.WriteEntries(act, parts[0])
	if err != nil {
		return err
	}
	writes.ops = append(writes.ops, op)
	if err := s.Interface.Create(ctx, key, obj, out, ttl); err != nil {
		return err
	}
	act.Revision = writes.revision
	s.inForce(ctx, act, parts[0])
	return nil
}

// catchUpFor is how long certificates are looked for that no server has revoked when it issued
// them: another one learns of a Revocation within a second.
const catchUpFor = 10 * time.Second

// catchUp revokes certificates of pending requests that were issued after a revision, while
// the selection of a Revocation was under way or before all servers had it.
func (s revokingStore) catchUp(ctx context.Context, since int64) {
	ctx, cancel := context.WithTimeout(ctx, catchUpFor)
	defer cancel()
	err := s.records.Watch(ctx, since, func(e inventory.Event) bool {
		if e.Deleted || e.Revoked || e.Record.Denial != nil {
			return true
		}
		existed := e.Record.CreationTimestamp.Time
		if a := e.Record.Approval; a != nil && a.Time != nil {
			existed = a.Time.Time
		}
		act, entry, ok := revoking.Pending(s.records.Revoked(), e.Record, existed, s.clock.Now().UTC().Truncate(time.Second))
		if _, known := s.records.Revoked().Entry(&entry); !ok || known {
			return true
		}
		if err := s.write(ctx, act, []revocation.Entry{entry}); err != nil {
			klog.ErrorS(err, "Cannot revoke the certificate of a pending request", "revocation", act.Name, "record", e.Record.Name)
		}
		return true
	})
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "Cannot find all certificates of pending requests")
	}
}

// write stores entries without their object.
func (s revokingStore) write(ctx context.Context, act revocation.Act, entries []revocation.Entry) error {
	op, err := s.records.WriteEntries(act, entries)
	if err != nil {
		return err
	}
	writes := &writesOf{ops: []clientv3.Op{op}, revocation: true}
	if err := s.commit(ctx, writes, tenant.Exempt); err != nil {
		return err
	}
	act.Revision = writes.revision
	s.inForce(ctx, act, entries)
	return nil
}

// inForce adds entries that are stored to the index, and notes that.
func (s revokingStore) inForce(ctx context.Context, act revocation.Act, entries []revocation.Entry) {
	s.records.Revoked().Add(act, entries) // the watch of the store may have been quicker
	logger := klog.FromContext(ctx)
	const logged = 100
	for n, e := range entries {
		if n == logged {
			break
		}
		logger.Info("Revoked a certificate", "revocation", act.Name, "user", act.User, "serial", fmt.Sprintf("%x", e.Serial), "reason", e.Reason)
	}
	if len(entries) > logged {
		logger.Info("Revoked certificates", "revocation", act.Name, "user", act.User, "certificates", len(entries))
	}
	audit.AddAuditAnnotation(ctx, "revocation."+v1alpha1.GroupName+"/certificates", fmt.Sprint(len(entries)))
}

// revocationOf returns a Revocation in its stored form as its type.
func revocationOf(obj runtime.Object) (*v1alpha1.Revocation, error) {
	object := &v1alpha1.Revocation{}
	switch obj := obj.(type) {
	case *lean.Object:
		object.ObjectMeta = obj.ObjectMeta
		if err := json.Unmarshal([]byte(obj.Spec), &object.Spec); err != nil {
			return nil, apierrors.NewBadRequest("spec: " + err.Error())
		}
		if obj.Status != "" {
			if err := json.Unmarshal([]byte(obj.Status), &object.Status); err != nil {
				return nil, apierrors.NewBadRequest("status: " + err.Error())
			}
		}
	case *unstructured.Unstructured: // the library serves the definition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, object); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	default:
		return nil, fmt.Errorf("a %T is not a Revocation", obj)
	}
	return object, nil
}

// setStatus sets the status of a Revocation in its stored form.
func setStatus(obj runtime.Object, status *v1alpha1.RevocationStatus) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return err
	}
	switch obj := obj.(type) {
	case *lean.Object:
		text, err := json.Marshal(fields) // with sorted names
		if err != nil {
			return err
		}
		obj.Status = lean.JSON(text)
	case *unstructured.Unstructured:
		obj.Object["status"] = fields
	}
	return nil
}

// knownCAs returns the CAs of client certificates, and those in ClusterTrustBundles of
// signers.
func knownCAs(client kubernetes.Interface, who *authn.Authentication) func(context.Context) ([]revoking.CA, error) {
	return func(ctx context.Context) ([]revoking.CA, error) {
		bundles, err := client.CertificatesV1().ClusterTrustBundles().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading the trust bundles: %w", err)
		}
		var known []revoking.CA
		add := func(data []byte, signer, bundle string) {
			certificates, _ := pki.ParseCertificates(data) // others than certificates are not stored there
			for _, cert := range certificates {
				known = append(known, revoking.CA{Certificate: cert, Signer: signer, Bundle: bundle})
			}
		}
		for _, bundle := range bundles.Items {
			if bundle.Spec.SignerName != "" {
				add([]byte(bundle.Spec.TrustBundle), bundle.Spec.SignerName, bundle.Name)
			}
		}
		add(who.UserCAs.CurrentCABundleContent(), clientCAs, "")
		return known, nil
	}
}

// knownSigners returns the Signers.
func knownSigners(client kubernetes.Interface) func(context.Context) ([]v1alpha1.Signer, error) {
	return func(ctx context.Context) ([]v1alpha1.Signer, error) {
		var all v1alpha1.SignerList
		data, err := client.CertificatesV1().RESTClient().Get().AbsPath("/apis", v1alpha1.GroupVersion.String(), "signers").SetHeader("Accept", "application/json").DoRaw(ctx)
		if err == nil {
			err = json.Unmarshal(data, &all)
		}
		if apierrors.IsNotFound(err) { // the definition is not installed
			err = nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the Signers: %w", err)
		}
		return all.Items, nil
	}
}

// listedCA finds the CA whose list has a name among CAs.
func listedCA(known func(context.Context) ([]revoking.CA, error)) func(context.Context, string) (*x509.Certificate, []string, error) {
	return func(ctx context.Context, list string) (*x509.Certificate, []string, error) {
		cas, err := known(ctx)
		for _, ca := range cas {
			switch {
			case revocation.ListID(ca.Certificate) != list:
			case ca.Bundle == "": // named like the server's own CAs
				return ca.Certificate, []string{ca.Certificate.Subject.CommonName}, nil
			default:
				return ca.Certificate, []string{ca.Signer}, nil
			}
		}
		return nil, nil, err
	}
}

// heldLists returns an error while no list may be signed, because the store was restored.
func heldLists(client kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := client.CoreV1().ConfigMaps(rights.ServeNamespace).Get(ctx, rights.RestoredStore, metav1.GetOptions{})
		switch {
		case err == nil:
			return apierrors.NewServiceUnavailable("revocation lists are on hold, because the store was restored: see certplane revocation resume")
		case apierrors.IsNotFound(err):
			return nil
		}
		return err
	}
}

// clientCAs is the name in rights to revoke certificates of CAs of client certificates that
// belong to no signer.
const clientCAs = "certplane-client-ca-file"

// revokerInitializer gives plugins what decides about Revocations.
type revokerInitializer struct{ *revoking.Revoker }

func (i revokerInitializer) Initialize(plugin genericadmission.Interface) {
	if wants, ok := plugin.(admission.WantsRevoker); ok {
		wants.SetRevoker(i)
	}
}

// Create implements admission.Revoker.
func (i revokerInitializer) Create(ctx context.Context, by user.Info, object *v1alpha1.Revocation) error {
	_, err := i.Resolve(ctx, by, object)
	return err
}
