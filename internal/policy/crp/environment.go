package crp

import (
	"fmt"
	"sync"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// The types of expressions have the names that they have in approver-policy:
// errors contain them.
const (
	typePackage    = "cm.io.policy.pkg.internal.approver.validation"
	requestType    = "CertificateRequest"
	serviceAccount = typePackage + ".ServiceAccount"
)

// The limits for the cost of one evaluation, which are also those of
// Kubernetes for one expression.
const (
	costLimit      = 1_000_000
	interruptCheck = 100
)

// dialect is what expressions are written in.
type dialect struct {
	env *cel.Env
	// request is the type of the variable cr.
	request protoreflect.MessageDescriptor
}

// newDialect creates the dialect only once: that takes milliseconds.
var newDialect = sync.OnceValues(func() (dialect, error) {
	request, err := describeRequest()
	if err != nil {
		return dialect{}, fmt.Errorf("describing the type of requests: %w", err)
	}
	env, err := cel.NewEnv(
		cel.Types(dynamicpb.NewMessage(request)),
		cel.Variable("self", cel.StringType),
		cel.Variable("cr", cel.ObjectType(string(request.FullName()))),
		ext.Strings(),
		serviceAccounts(),
	)
	if err != nil {
		return dialect{}, fmt.Errorf("making the environment of expressions: %w", err)
	}
	return dialect{env: env, request: request}, nil
})

// describeRequest returns the type of the variable cr. It is a message of
// protocol buffers: a field that is the empty text is one that has(...) does not
// find.
func describeRequest() (protoreflect.MessageDescriptor, error) {
	text := func(number int32, name string, label descriptorpb.FieldDescriptorProto_Label) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: &name, Number: &number, Label: &label, Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
		}
	}
	const one, many = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL, descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("certificaterequest.proto"), Package: proto.String(typePackage), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{
			Name: proto.String(requestType),
			Field: []*descriptorpb.FieldDescriptorProto{
				text(1, "name", one), text(2, "namespace", one), text(3, "username", one), text(4, "groups", many),
			},
		}},
	}, nil)
	if err != nil {
		return nil, err
	}
	return file.Messages().ByName(requestType), nil
}

// requestVariable returns the value of the variable cr.
func (d dialect) requestVariable(cr *cmv1.CertificateRequest) proto.Message {
	message, fields := dynamicpb.NewMessage(d.request), d.request.Fields()
	for name, value := range map[protoreflect.Name]string{"name": cr.Name, "namespace": cr.Namespace, "username": cr.Spec.Username} {
		message.Set(fields.ByName(name), protoreflect.ValueOfString(value))
	}
	groups := message.Mutable(fields.ByName("groups")).List()
	for _, group := range cr.Spec.Groups {
		groups.Append(protoreflect.ValueOfString(group))
	}
	return message
}
