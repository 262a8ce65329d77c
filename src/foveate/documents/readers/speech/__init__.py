"""Transcripts, meetings and subtitles."""
