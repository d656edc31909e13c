package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"

	"lockstep/blob"
	"lockstep/internal/certerror"
)

var (
	// ErrChanged reports a blob that was replaced while it was read.
	ErrChanged = errors.New("replaced while it was read")

	// ErrNoBucket reports that the bucket does not exist.
	ErrNoBucket = errors.New("the bucket does not exist")
)

// An Error describes a failed operation: the operation, the bucket, the key and
// the cause.
type Error struct {
	Op     string
	Bucket string
	Key    string // or the prefix of a listing; may be empty
	Err    error
	hint   string
	down   bool // the service failed, not the operation on this key

	conflict bool // the condition of the request was not met
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s s3://%s/%s: %v", e.Op, e.Bucket, printable(e.Key), e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes an Error that concerns the service rather than the key match
// [blob.ErrUnavailable].
func (e *Error) Is(target error) bool { return e.down && target == blob.ErrUnavailable }

// Hint returns advice for the user, or "".
func (e *Error) Hint() string { return e.hint }

// printable returns a key so that it can be printed in a line.
func printable(key string) string {
	if q := fmt.Sprintf("%q", key); q[1:len(q)-1] != key {
		return q
	}
	return key
}

// fail returns the error of an operation on key, with its cause in words.
func (b *Bucket) fail(op, key string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	down, conflict := isDown(err), coded(err, minio.PreconditionFailed, codeConflict)
	hint, err := b.service.explain(err)
	return &Error{Op: op, Bucket: b.opts.Bucket, Key: key, Err: err, hint: hint, down: down, conflict: conflict}
}

// isDown reports whether err concerns the service or the client's permissions
// rather than one key: no answer, a failure, a refusal.
func isDown(err error) bool {
	if r, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return r.StatusCode >= http.StatusInternalServerError || r.StatusCode == http.StatusForbidden ||
			r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusTooManyRequests || r.Code == minio.NoSuchBucket
	}
	var u *url.Error
	var op *net.OpError
	return (errors.As(err, &u) || errors.As(err, &op)) && !errors.Is(err, context.Canceled)
}

// A serviceError is an error message of the service, with the matching
// sentinel.
type serviceError struct {
	text string
	is   error // may be nil
}

func (e *serviceError) Error() string { return e.text }
func (e *serviceError) Unwrap() error { return e.is }

// A service is what the advice in errors depends on.
type service struct {
	where  string // the endpoint
	signed bool   // requests have credentials
}

// explain returns the cause in words, and advice for the user.
func (s service) explain(err error) (hint string, cause error) {
	if resp, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return s.explainResponse(resp)
	}
	if syntax, ok := errors.AsType[*xml.SyntaxError](err); ok {
		return "see that the endpoint is right: " + s.where, fmt.Errorf("the answer is not of an S3 service: %w", syntax)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the message already has the address, and the query is meaningless to users
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return "", err
	}
	if strings.HasPrefix(err.Error(), "Connection closed by foreign host") {
		err = errors.New("the service closed the connection without an answer")
	}
	if endpoint, perr := url.Parse(s.where); perr == nil {
		err = certerror.Explain(err, endpoint.Host)
	}
	if c, ok := errors.AsType[*certerror.Error](err); ok {
		return c.Hint(), c
	}
	var dns *net.DNSError
	var op *net.OpError
	late, timed := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	switch {
	case errors.As(err, &dns), errors.As(err, &op) && op.Op == "dial", timed && late.Timeout():
		hint = "the service is looked for at " + s.where + "; set AWS_ENDPOINT_URL if it is elsewhere"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		hint = "the service speaks plain HTTP: write http:// before the endpoint"
	}
	return hint, err
}

// explainResponse does so for an error response of the service.
func (s service) explainResponse(r minio.ErrorResponse) (hint string, cause error) {
	text := strings.TrimRight(r.Error(), ".\n ")
	if r.Code != "" && !strings.Contains(text, r.Code) {
		text += " (" + r.Code + ")"
	}
	said := &serviceError{text: text}
	switch r.Code {
	case minio.NoSuchKey:
		return "", blob.ErrNotExist
	case minio.NoSuchBucket:
		return "see the name; the service is " + s.where + ", set AWS_ENDPOINT_URL if the bucket is elsewhere", ErrNoBucket
	case codeDirectory, codeBelowFile:
		// Services that store objects as files have the limits of files.
		said.is = blob.ErrDirectory
		if r.Code == codeBelowFile {
			said.is = blob.ErrNotDirectory
		}
		return "", said
	case minio.PreconditionFailed:
		return "", ErrChanged
	case "AccessDenied", "AllAccessDisabled", "Forbidden":
		said.is = fs.ErrPermission
		if !s.signed {
			return "no credentials were given: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", said
		}
		return "the credentials are known, but lack a permission: a Source needs s3:ListBucket and s3:GetObject; publishing and mirrors need s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload too", said
	case "InvalidAccessKeyId", "XAdminUserNotFound":
		said.is = fs.ErrPermission
		return "see AWS_ACCESS_KEY_ID, and that the service is the right one: " + s.where, said
	case "SignatureDoesNotMatch":
		said.is = fs.ErrPermission
		return "see AWS_SECRET_ACCESS_KEY", said
	case "ExpiredToken", "ExpiredTokenException", "InvalidToken":
		said.is = fs.ErrPermission
		return "the session has ended: get new credentials", said
	case "RequestTimeTooSkewed":
		return "set the clock of this machine", said
	case "AuthorizationHeaderMalformed", "InvalidRegion", "PermanentRedirect", "TemporaryRedirect", "IllegalLocationConstraintException":
		if r.Region != "" {
			return "the bucket is in region " + r.Region + ": set AWS_REGION=" + r.Region, said
		}
		return "set AWS_REGION to the region of the bucket", said
	}
	if r.StatusCode == http.StatusNotFound && r.Code == "" {
		return "", blob.ErrNotExist
	}
	return "", said
}

// Error codes of services that store objects as files.
const (
	codeDirectory = "ExistingObjectIsDirectory"
	codeBelowFile = "ObjectParentIsFile"
	codeTooLong   = "KeyTooLongError"
)

// codeConflict says that another request for the object was under way, so that the condition
// of this one could not be decided.
const codeConflict = "ConditionalRequestConflict"

// coded reports whether the service answered with one of the codes.
func coded(err error, codes ...string) bool {
	r, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && slices.Contains(codes, r.Code)
}

// absent reports whether err means that there is no object with that key, or
// cannot be one.
func absent(err error) bool { return coded(err, minio.NoSuchKey, codeTooLong, codeBelowFile) }

// missing converts err to [blob.ErrNotExist] if it means that.
func missing(err error) error {
	if absent(err) {
		return blob.ErrNotExist
	}
	return err
}
