package command

import (
	"errors"

	"redoubt/types/channel"
)

// Errors of channels.
const (
	ErrNoSubscriber = Error("NOSUBSCRIBER The subscriber does not exist or its time is over, subscribe first")
	ErrBadHandle    = Error("BADHANDLE The handle is malformed, or was not made for this channel and subscriber")
	ErrHandleBeyond = Error("BADHANDLE The handle is beyond the clock of the channel")
	errChannelName  = Error("ERR invalid name: channels, subscribers and messages are named by 1 to 63 characters of 0-9, a-z, _ and -, the first one 0-9 or a-z")
	errClock        = Error("ERR clock is out of range, it must be between -9007199254740991 and 9007199254740991")
	errClockSet     = Error("ERR the clock can be set only of a channel without messages and subscribers")
)

// channelText is the text of an error of a channel, or empty.
func channelText(err error) string {
	switch {
	case errors.Is(err, channel.ErrNoSubscriber):
		return string(ErrNoSubscriber)
	case errors.Is(err, channel.ErrHandleBeyond):
		return string(ErrHandleBeyond)
	case errors.Is(err, channel.ErrHandle):
		return string(ErrBadHandle)
	case errors.Is(err, channel.ErrNotEmpty):
		return string(errClockSet)
	}
	return ""
}
