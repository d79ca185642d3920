package inventory

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/api/nodeid"
	"github.com/certplane/certplane/internal/pki"
)

// Answered is a request for a certificate, seen as the inventory sees it.
type Answered struct {
	// Certificate is the certificate of the request in PEM, perhaps with a chain; empty
	// if it has none.
	Certificate []byte
	// Approved is true once the request is approved, Denied once it is denied.
	Approved, Denied bool

	Object client.Object
	group  string
	kind   string
	signer string
	// requester is the user who made the request.
	requester string
	approval  inventoryv1alpha1.ApprovalFacts
	denial    inventoryv1alpha1.DenialFacts
	location  *inventoryv1alpha1.Location
	// requested returns the content that the request asks for.
	requested func() inventoryv1alpha1.CertificateFacts
}

// Look returns what the inventory records about an object; ok is false if the object is not
// a request for a certificate. The object is not modified.
func Look(object client.Object) (a Answered, ok bool) {
	switch request := object.(type) {
	case *certificatesv1.CertificateSigningRequest:
		return ofSigningRequest(request), true
	case *cmv1.CertificateRequest:
		return ofCertificateRequest(request), true
	case *certificatesv1beta1.PodCertificateRequest:
		return ofPodRequest(request), true
	}
	return Answered{}, false
}

// UID identifies the request.
func (a Answered) UID() types.UID { return a.Object.GetUID() }

// Kind is the kind of the request.
func (a Answered) Kind() string { return a.kind }

// ApprovedAt returns when the condition says that the request was approved, or otherwise.
func (a Answered) ApprovedAt(otherwise metav1.Time) metav1.Time {
	if a.approval.Time != nil {
		return *a.approval.Time
	}
	return otherwise
}

func ofSigningRequest(csr *certificatesv1.CertificateSigningRequest) Answered {
	a := Answered{
		Certificate: csr.Status.Certificate, Object: csr, group: certificatesv1.GroupName, kind: "CertificateSigningRequest",
		signer: csr.Spec.SignerName, requester: csr.Spec.Username, location: ofOrder(csr), requested: requestedIn(csr.Spec.Request),
	}
	for _, c := range csr.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == certificatesv1.CertificateApproved:
			a.Approved, a.approval = true, approvalOf(c.Reason, c.Message, &c.LastTransitionTime)
		case c.Type == certificatesv1.CertificateDenied:
			a.Denied, a.denial = true, inventoryv1alpha1.DenialFacts{Reason: c.Reason, Message: c.Message}
		}
	}
	return a
}

func ofCertificateRequest(cr *cmv1.CertificateRequest) Answered {
	a := Answered{
		Certificate: cr.Status.Certificate, Object: cr, group: certmanager.Group, kind: cmv1.CertificateRequestKind,
		signer: certmanager.SignerText(cr), requester: cr.Spec.Username, location: ofOrder(cr), requested: requestedIn(cr.Spec.Request),
	}
	if owner := certmanager.OwnerCertificate(cr); owner != "" {
		a.location = &inventoryv1alpha1.Location{Kind: cmv1.CertificateKind, Namespace: cr.Namespace, Name: owner, Claimed: true}
	}
	if c := certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionApproved); c != nil && c.Status == cmmeta.ConditionTrue {
		a.Approved, a.approval = true, approvalOf(c.Reason, c.Message, c.LastTransitionTime)
	}
	if c := certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionDenied); c != nil && c.Status == cmmeta.ConditionTrue {
		a.Denied, a.denial = true, inventoryv1alpha1.DenialFacts{Reason: c.Reason, Message: c.Message}
	}
	return a
}

func ofPodRequest(request *certificatesv1beta1.PodCertificateRequest) Answered {
	a := Answered{
		Certificate: []byte(request.Status.CertificateChain), Object: request, group: certificatesv1.GroupName, kind: "PodCertificateRequest",
		signer: request.Spec.SignerName, requester: serviceaccount.MakeUsername(request.Namespace, request.Spec.ServiceAccountName),
		location: &inventoryv1alpha1.Location{
			Kind: "Pod", Namespace: request.Namespace, Name: request.Spec.PodName, Node: string(request.Spec.NodeName),
		},
		requested: func() inventoryv1alpha1.CertificateFacts { return inventoryv1alpha1.CertificateFacts{} }, // the signer chooses
	}
	if c := meta.FindStatusCondition(request.Status.Conditions, certificatesv1beta1.PodCertificateRequestConditionTypeDenied); c != nil && c.Status == metav1.ConditionTrue {
		a.Denied, a.denial = true, inventoryv1alpha1.DenialFacts{Reason: c.Reason, Message: c.Message}
	}
	return a
}

// requestedIn returns what returns the facts of a request in PEM; none if it cannot be read.
func requestedIn(pem []byte) func() inventoryv1alpha1.CertificateFacts {
	return func() inventoryv1alpha1.CertificateFacts {
		csr, err := pki.ParseRequest(pem)
		if err != nil {
			return inventoryv1alpha1.CertificateFacts{}
		}
		facts := inventoryv1alpha1.CertificateFacts{Subject: inventory.BoundText(csr.Subject.String()), KeyType: pki.KeyName(csr.PublicKey), IsCA: csr.CA.Value.IsCA}
		addNames(&facts, csr.Subject, csr.DNSNames, csr.IPAddresses, csr.URIs, csr.EmailAddresses)
		return facts
	}
}

func approvalOf(reason, message string, at *metav1.Time) inventoryv1alpha1.ApprovalFacts {
	facts := inventoryv1alpha1.ApprovalFacts{Reason: reason, Message: message}
	if !at.IsZero() {
		facts.Time = at.DeepCopy()
	}
	return facts
}

// ofOrder returns the order of an ACME client that a request was made for, nil if it was
// made for none.
func ofOrder(request metav1.Object) *inventoryv1alpha1.Location {
	if order := request.GetLabels()[v1alpha1.AcmeOrderLabel]; order != "" {
		namespace, _, _ := strings.Cut(request.GetAnnotations()[v1alpha1.AcmeOrderAnnotation], "/")
		return &inventoryv1alpha1.Location{Kind: "AcmeOrder", Namespace: namespace, Name: order, Claimed: true}
	}
	return nil
}

// ofNode returns the node whose own certificate one is, nil if it is none's.
func ofNode(signer string, cert *x509.Certificate) *inventoryv1alpha1.Location {
	name, isNode := strings.CutPrefix(cert.Subject.CommonName, nodeid.UserPrefix)
	if !isNode || signer != certificatesv1.KubeAPIServerClientKubeletSignerName && signer != certificatesv1.KubeletServingSignerName {
		return nil
	}
	return &inventoryv1alpha1.Location{Kind: "Node", Name: name}
}

// Approval is the decision on a request: the user who approved or denied it, when, and the
// policies that applied. An approval is stored until the certificate is issued.
type Approval struct {
	Approver string                          `json:"approver"`
	Time     metav1.Time                     `json:"time"`
	Policies []inventoryv1alpha1.PolicyFacts `json:"policies,omitempty"`
}

// record returns the parts that the records of a certificate and of a denial share.
func (a Answered) record(facts inventoryv1alpha1.CertificateFacts, now metav1.Time) *inventoryv1alpha1.IssuedCertificate {
	return &inventoryv1alpha1.IssuedCertificate{
		ObjectMeta:  metav1.ObjectMeta{CreationTimestamp: now, Labels: boundedLabels(a.Object.GetLabels())},
		SignerName:  a.signer,
		Certificate: facts,
		Request: inventoryv1alpha1.RequestFacts{
			APIGroup: a.group, Kind: a.kind, Namespace: a.Object.GetNamespace(), Name: a.Object.GetName(), UID: string(a.Object.GetUID()),
			Requester: a.requester,
		},
		Location: a.location,
	}
}

// DenialRecord returns the record of the denial of a request, which must be denied, by a user.
// votes are the approvals before that, now is when it is denied.
func (a Answered) DenialRecord(by Approval, votes []inventoryv1alpha1.VoteFacts) *inventoryv1alpha1.IssuedCertificate {
	record := a.record(a.requested(), by.Time)
	record.Denial = &a.denial
	record.Denial.User, record.Denial.Time, record.Denial.Policies, record.Denial.Votes = by.Approver, by.Time, by.Policies, votes
	bound(record)
	Complete(record)
	return record
}

// Record returns the record of the certificate of a request, which must have one. approval
// is nil if the approver is not known. If several people had to approve, votes are their
// approvals, and approval is the last one. now is the time of issuance.
func (a Answered) Record(approval *Approval, votes []inventoryv1alpha1.VoteFacts, now metav1.Time) (*inventoryv1alpha1.IssuedCertificate, error) {
	chain, err := pki.ParseCertificates(a.Certificate)
	if err != nil {
		return nil, err
	}
	cert := chain[0]
	record := a.record(CertificateFacts(cert), now)
	if record.Location == nil {
		record.Location = ofNode(a.signer, cert)
	}
	if a.Approved {
		record.Approval = &a.approval
	}
	if approval != nil {
		if record.Approval == nil {
			record.Approval = &inventoryv1alpha1.ApprovalFacts{}
		}
		record.Approval.Approvers, record.Approval.Time, record.Approval.Policies = []string{approval.Approver}, &approval.Time, approval.Policies
	}
	if len(votes) > 0 && record.Approval != nil {
		record.Approval.Approvers, record.Approval.Votes = nil, votes
		for _, vote := range votes {
			record.Approval.Approvers = append(record.Approval.Approvers, vote.User)
		}
	}
	bound(record)
	Complete(record)
	return record, nil
}

// IssuedAt estimates when a certificate was issued, because its object does not contain
// that: at the earliest when the request was made and when the certificate begins.
func IssuedAt(cert *x509.Certificate, object client.Object, now time.Time) metav1.Time {
	at := cert.NotBefore.UTC()
	if _, isSecret := object.(*corev1.Secret); !isSecret && object.GetCreationTimestamp().After(at) {
		at = object.GetCreationTimestamp().UTC()
	}
	if at.After(now) {
		at = now
	}
	return metav1.NewTime(at)
}

// bound shortens the texts of a record that clients choose.
func bound(record *inventoryv1alpha1.IssuedCertificate) {
	record.SignerName, record.Request.Requester = inventory.BoundText(record.SignerName), inventory.BoundText(record.Request.Requester)
	if a := record.Approval; a != nil {
		for i := range a.Approvers {
			a.Approvers[i] = inventory.BoundText(a.Approvers[i])
		}
		a.Reason, a.Message = inventory.BoundText(a.Reason), inventory.BoundText(a.Message)
		boundVotes(a.Votes)
	}
	if d := record.Denial; d != nil {
		d.User, d.Reason, d.Message = inventory.BoundText(d.User), inventory.BoundText(d.Reason), inventory.BoundText(d.Message)
		boundVotes(d.Votes)
	}
}

func boundVotes(votes []inventoryv1alpha1.VoteFacts) {
	for i := range votes {
		votes[i].User, votes[i].Message = inventory.BoundText(votes[i].User), inventory.BoundText(votes[i].Message)
	}
}

// nameLength is how much of the fingerprint is the name of a record: 128 bits.
const nameLength = 32

// OwnRecord returns the record of a certificate that the server has made for itself.
func OwnRecord(cert *x509.Certificate, why pki.Purpose, now metav1.Time) *inventoryv1alpha1.IssuedCertificate {
	record := &inventoryv1alpha1.IssuedCertificate{
		ObjectMeta:  metav1.ObjectMeta{CreationTimestamp: now},
		SignerName:  why.Signer,
		Certificate: CertificateFacts(cert),
		Request:     inventoryv1alpha1.RequestFacts{Kind: why.Kind, Namespace: why.Namespace, Name: why.Name, UID: why.UID, Requester: why.Requester},
		Use:         why.Use,
	}
	Complete(record)
	return record
}

// Complete sets the metadata that follows from the rest of a record.
func Complete(record *inventoryv1alpha1.IssuedCertificate) {
	record.Name, record.UID = record.Request.UID, types.UID(record.Request.UID) // of a denial
	if id := record.Certificate.Fingerprint; len(id) >= nameLength {
		record.Name = id[:nameLength]
		record.UID = types.UID(id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:32])
	}
	own := map[string]string{
		inventoryv1alpha1.KindLabel:      record.Request.Kind,
		inventoryv1alpha1.NamespaceLabel: record.Request.Namespace,
		inventoryv1alpha1.SignerLabel:    strings.ReplaceAll(record.SignerName, "/", "_"),
		inventoryv1alpha1.NotAfterLabel:  strconv.FormatInt(record.Certificate.NotAfter.Unix(), 10),
	}
	if record.Denial != nil {
		delete(own, inventoryv1alpha1.NotAfterLabel)
	}
	maps.DeleteFunc(own, func(_, value string) bool { return value == "" || len(validation.IsValidLabelValue(value)) > 0 })
	if record.Labels == nil {
		record.Labels = own
		return
	}
	maps.Copy(record.Labels, own)
}

// The limits of the labels that a record copies from its request.
const (
	maxLabels     = 16
	maxLabelBytes = 1024
)

// boundedLabels returns a copy of labels, or nil if they are too many or too large: a record
// lives as long as its certificate and cannot be changed. It drops the labels that the
// inventory sets itself.
func boundedLabels(labels map[string]string) map[string]string {
	size := 0
	for key, value := range labels {
		size += len(key) + len(value)
	}
	if len(labels) > maxLabels || size > maxLabelBytes {
		return nil
	}
	labels = maps.Clone(labels)
	maps.DeleteFunc(labels, isOwnLabel)
	return labels
}

func isOwnLabel(key, _ string) bool { return strings.HasPrefix(key, inventoryv1alpha1.GroupName+"/") }

// CertificateFacts returns the content of a certificate.
func CertificateFacts(cert *x509.Certificate) inventoryv1alpha1.CertificateFacts {
	facts := inventoryv1alpha1.CertificateFacts{
		SerialNumber: inventory.BoundText(cert.SerialNumber.Text(16)), Fingerprint: pki.Fingerprint(cert), Subject: inventory.BoundText(cert.Subject.String()),
		Issuer: inventory.BoundText(cert.Issuer.String()), AuthorityKeyID: inventory.BoundText(hex.EncodeToString(cert.AuthorityKeyId)),
		KeyType: pki.KeyName(cert.PublicKey), Usages: pki.UsagesOf(cert).Names(), IsCA: cert.IsCA,
		NotBefore: metav1.NewTime(cert.NotBefore.UTC()), NotAfter: metav1.NewTime(cert.NotAfter.UTC()),
	}
	if _, err := x509.MarshalPKIXPublicKey(cert.PublicKey); err == nil { // others would share one
		facts.KeyFingerprint = pki.KeyFingerprint(cert.PublicKey)
	}
	if twin := pki.OtherFingerprint(cert); twin != "" {
		facts.Twin = twin[:nameLength]
	}
	if cert.SignatureAlgorithm != x509.UnknownSignatureAlgorithm {
		facts.SignatureAlgorithm = cert.SignatureAlgorithm.String()
	}
	addNames(&facts, cert.Subject, cert.DNSNames, cert.IPAddresses, cert.URIs, cert.EmailAddresses)
	return facts
}

// addNames adds the names of a certificate or a request.
func addNames(facts *inventoryv1alpha1.CertificateFacts, subject pkix.Name, dns []string, addresses []net.IP, uris []*url.URL, emails []string) {
	facts.CommonName, facts.DNSNames, facts.EmailAddresses = subject.CommonName, slices.Clone(dns), slices.Clone(emails)
	for _, address := range addresses {
		facts.IPAddresses = append(facts.IPAddresses, address.String())
	}
	for _, uri := range uris {
		facts.URIs = append(facts.URIs, uri.String())
	}
	inventory.BoundNames(facts)
}
