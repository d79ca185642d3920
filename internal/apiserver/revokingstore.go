package apiserver

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"

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
	act := revocation.Act{UID: object.UID, Name: object.Name, User: by.GetName(), Pending: resolved.Pending}
	parts := resolved.Parts()
	if len(parts) == 0 {
		return s.Interface.Create(ctx, key, obj, out, ttl)
	}
	// The parts of a large act have no effect before the first one, which comes with the object:
	// a server that ends halfway has revoked nothing.
	for n, part := range parts[1:] {
		if _, err := s.write(ctx, partOf(act, n+1), part); err != nil {
			if dropErr := inventory.DropParts(context.WithoutCancel(ctx), s.records, act.UID); dropErr != nil {
				klog.FromContext(ctx).Error(dropErr, "Cannot delete parts of a Revocation that is not stored; they are deleted after a day", "revocation", act.Name)
			}
			return err
		}
	}
	ctx, writes := withWrites(ctx)
	writes.revocation = true
	if !s.together {
		if act.Revision, err = s.write(ctx, act, parts[0]); err != nil {
			return err
		}
		s.inForce(ctx, act, parts...)
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
	s.inForce(ctx, act, parts...)
	return nil
}

// partOf returns the act of a part of another one.
func partOf(act revocation.Act, number int) revocation.Act {
	return revocation.Act{UID: types.UID(fmt.Sprintf("%s-%d", act.UID, number)), Of: act.UID, Name: act.Name, User: act.User}
}

// write stores entries without their object. The revision is 0 if they are stored already.
func (s revokingStore) write(ctx context.Context, act revocation.Act, entries []revocation.Entry) (revision int64, err error) {
	op, err := s.records.WriteEntries(act, entries)
	if err != nil {
		return 0, err
	}
	writes := &writesOf{ops: []clientv3.Op{op}, revocation: true}
	err = s.commit(ctx, writes, tenant.Exempt, inventory.IsNew(op))
	return writes.revision, err
}

// inForce adds the parts of an act that is stored to the index, and logs it.
func (s revokingStore) inForce(ctx context.Context, act revocation.Act, parts ...[]revocation.Entry) {
	count := 0
	for n, part := range parts {
		of := act
		if n > 0 {
			of = partOf(act, n)
		}
		s.records.Revoked().Add(of, part) // the watch of the store may have been quicker
		count += len(part)
	}
	logger := klog.FromContext(ctx)
	const logged = 100 // a part has more, unless it is the only one
	for _, e := range parts[0][:min(len(parts[0]), logged)] {
		logger.Info("Revoked a certificate", "revocation", act.Name, "user", act.User, "serial", fmt.Sprintf("%x", e.Serial), "reason", e.Reason)
	}
	if count > logged {
		logger.Info("Revoked certificates", "revocation", act.Name, "user", act.User, "certificates", count)
	}
	audit.AddAuditAnnotation(ctx, "revocation."+v1alpha1.GroupName+"/certificates", fmt.Sprint(count))
}

// revocationOf returns a Revocation in its stored form as its type.
func revocationOf(obj runtime.Object) (*v1alpha1.Revocation, error) {
	object := &v1alpha1.Revocation{}
	data, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(data, object)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
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
